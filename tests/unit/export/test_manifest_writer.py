"""Manifests that an export writes: `webpte.load` takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

import webpte
from support.graphs.graphs import chain, wait
from support.write.pte_writer import write_pte
from webpte import errors
from webpte.engine.files.manifest import read_manifest
from webpte_export.manifest_writer import write_manifest


def test_an_export_is_loaded_by_its_manifest(tmp_path: Path) -> None:
    program = tmp_path / "chat.pte"
    program.write_bytes(write_pte(chain(2)))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_text("{}")
    path = write_manifest(program, ("tokenizer.json", "tokenizer_config.json"))
    assert path.name == "chat.manifest.json"
    read = read_manifest(path.read_bytes(), path.name)
    assert read.tokenizer is not None
    assert (read.tokenizer.name, read.tokenizer.size) == ("tokenizer.json", 2)
    wait(webpte.load(path, device="numpy")).close()
    program.write_bytes(write_pte(chain(3)))
    with pytest.raises(errors.SourceError):
        wait(webpte.load(path, device="numpy"))
