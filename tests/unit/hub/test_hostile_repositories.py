"""Repositories with hostile files: typed errors only, and no request elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import webpte
from support.harness import extent
from support.harness.task_cases import models_folder
from support.hub.hub_site import HubSite, repositories
from webpte.errors import WebpteError
from webpte_host.base.layout import ROOT

NAMES = "executorch-community/Stories-ExecuTorch-WebGPU", "someone/feelings"
FILES = ("manifest.json", "config.json", "tokenizer_config.json", "tokenizer.json", "README.md")
DIGEST = "a" * 64
VALUES: list[Any] = [
    *(None, True, -1, 0, 1e308, 10**400, float("nan"), "", "\0", "\ud800", [], {}, [[]], [{}]),
    *("../../secret.pte", "/etc/passwd", "a/../../b.pte", "..\\b.pte", "hf:other/one"),
    *("http://127.0.0.1:9/x.pte", "file:///etc/passwd", "//127.0.0.1:9/x.pte", "model.pte"),
    *({"path": "../x.pte", "sha256": DIGEST}, {"http://127.0.0.1:9/x.pte": DIGEST}),
    *({"stories.pte": DIGEST}, [{"path": "stories.pte", "sha256": DIGEST}] * 3, DIGEST),
]
TEXTS = [b"", b"\xff\xfe", b"[" * 5000, b'{"a":' * 3000, b"---\npipeline_tag: [", b"null", b"{}"]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubSite]:
    with HubSite() as site:
        monkeypatch.setenv("HF_ENDPOINT", site.url)
        monkeypatch.setenv("WEBPTE_HUB_CACHE", str(tmp_path / "cache" / "hub"))
        yield site


def changed(data: bytes, rng: random.Random) -> bytes:
    """Return a file with one of its values replaced, or another file."""
    try:
        content = json.loads(data)
    except ValueError:
        content = None
    if content is None or rng.random() < 0.15:
        return rng.choice(TEXTS)
    for _ in range(rng.randint(1, 3)):
        content = replaced(content, rng)
    return json.dumps(content).encode("utf-8", "surrogatepass")


def replaced(content: Any, rng: random.Random) -> Any:
    if not content or not isinstance(content, dict | list) or rng.random() < 0.2:
        return rng.choice(VALUES)
    if isinstance(content, list):
        at = rng.randrange(len(content))
        return [*content[:at], replaced(content[at], rng), *content[at + 1 :]]
    key = rng.choice(sorted(content))
    if rng.random() < 0.1:
        return {**content, str(rng.choice(VALUES)): content[key]}
    return {**content, key: replaced(content[key], rng)}


@pytest.mark.parametrize("seed", range(extent.count(24, 400)))
def test_hostile_files_end_in_typed_errors(site: HubSite, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    known = repositories(ROOT / "web" / "samples", models_folder())
    for name in NAMES:
        files = dict(known[name])
        for path in rng.sample(FILES, 2):
            if path in files or path == "manifest.json":
                files[path] = changed(files.get(path, b"{}"), rng)
        site.add(name, files)

    async def work(name: str) -> None:
        await webpte.hub.files(name)
        async with await webpte.tasks.open(name, device="numpy"):
            pass

    for name in NAMES:
        with contextlib.suppress(WebpteError):
            asyncio.run(work(f"hf:{name}"))
    allowed = [f"/{prefix}{name}/" for name in NAMES for prefix in ("", "api/models/")]
    for stored, path, *_ in site.asked:
        assert stored or path.startswith(tuple(allowed))
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert all(path.is_relative_to(tmp_path / "cache" / "hub") for path in kept)
