"""Manifests: programs by the files that a JSON names, checked; and broken ones."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import chain, wait
from support.harness import extent
from support.harness.bounded import bounded_work
from support.harness.mutants import Random, damaged_json, outcomes
from support.write.pte_writer import write_pte
from webpte import errors
from webpte.engine.files.manifest import Manifest, ManifestPart, read_manifest

HASH = "0" * 64
WHOLE: dict[str, Any] = {
    "program": "model.pte",
    "data": ["parts/a.ptd", "b.ptd"],
    "tokenizer": "tokenizer.json",
    "files": [
        {"name": "model.pte", "bytes": 12, "sha256": HASH},
        {"name": "parts/a.ptd", "bytes": 5},
    ],
}


def written(folder: Path, **changes: Any) -> Path:
    """Write a program with its manifest, whose entry for it has these changes."""
    data = write_pte(chain(2))
    (folder / "model.pte").write_bytes(data)
    facts = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    path = folder / "webpte.json"
    entry = {"name": "model.pte", **facts, **changes}
    path.write_text(json.dumps({"program": "model.pte", "files": [entry]}))
    return path


def test_a_manifest_names_files() -> None:
    read = read_manifest(json.dumps(WHOLE), "webpte.json")
    program = ManifestPart("model.pte", 12, HASH)
    data = ManifestPart("parts/a.ptd", 5), ManifestPart("b.ptd")
    assert read == Manifest(program, data, ManifestPart("tokenizer.json"))


@pytest.mark.parametrize("given", [str, Path])
def test_a_program_by_its_manifest(given: type, tmp_path: Path) -> None:
    path = written(tmp_path)

    async def run() -> tuple[Any, ...]:
        async with await webpte.load(given(path), device="numpy") as program:
            (info,) = program.methods["forward"].inputs
            assert isinstance(info, webpte.TensorInfo)
            x = np.zeros(info.shape, np.float32)
            assert program.name == "model.pte"
            return await program.forward(x)

    assert len(wait(run())) == 1


def test_other_bytes_than_the_manifest_names(tmp_path: Path) -> None:
    with pytest.raises(errors.DigestError) as found:
        wait(webpte.load(written(tmp_path, sha256=HASH), device="numpy"))
    right = hashlib.sha256((tmp_path / "model.pte").read_bytes()).hexdigest()
    assert (found.value.expected, found.value.found) == (HASH, right)
    assert HASH in str(found.value)
    assert right in str(found.value)
    with pytest.raises(errors.SourceError, match=r"has .* bytes, but its manifest names 7"):
        wait(webpte.load(written(tmp_path, bytes=7), device="numpy"))


@pytest.mark.parametrize(
    "change",
    [
        {"program": 5},
        {"program": "../model.pte"},
        {"program": "/model.pte"},
        {"program": "https://example.org/model.pte"},
        {"program": "a\\b.pte"},
        {"program": "model.pte?x"},
        {"program": ""},
        {"data": "a.ptd"},
        {"data": [5]},
        {"data": ["a.ptd"] * 1001},
        {"files": [{}] * 1001},
        {"files": [{"name": "model.pte", "sha256": "abc"}]},
        {"files": [{"name": "model.pte", "bytes": -1}]},
        {"files": [{"name": "model.pte"}, {"name": "model.pte"}]},
        {"tokenizer": ["tokenizer.json"]},
    ],
)
def test_manifests_that_are_not_valid(change: dict[str, Any]) -> None:
    with pytest.raises(errors.ManifestError, match=r"^webpte\.json"):
        read_manifest(json.dumps({**WHOLE, **change}), "webpte.json")


def test_a_manifest_is_small() -> None:
    with pytest.raises(errors.ManifestError, match="at most"):
        read_manifest(" " * (1 << 21), "webpte.json")


def test_damaged_manifests_are_read_or_refused() -> None:
    def read(data: bytes) -> None:
        read_manifest(data, "webpte.json")

    def make(rng: Random) -> bytes:
        return damaged_json(WHOLE, rng)

    with bounded_work():
        good, refused = outcomes(
            read, make, extent.count(1000, 20_000), errors.ManifestError, "manifests"
        )
    assert min(good, refused) > 50
