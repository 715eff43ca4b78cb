"""Compiling Python's modules if it is not possible. Browser tests check that they are used."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from webpte_host.base.progress import Display
from webpte_host.setup import precompile


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A runtime without an interpreter, which Node cannot run."""
    folder = tmp_path / "runtime"
    (folder / "pyodide").mkdir(parents=True)
    (folder / precompile.LIBRARY).write_bytes(b"sources")
    stamp = {"lock": "any", "files": {precompile.LIBRARY: len(b"sources")}}
    (folder / "stamp.json").write_text(json.dumps(stamp))
    return folder


def compile_in(folder: Path, current: bool = False) -> str:
    shown = io.StringIO()
    precompile.ensure_compiled(Display(shown), folder, folder / "stamp.json", current)
    return shown.getvalue()


def test_what_cannot_be_compiled_is_reported_and_left_as_it_was(folder: Path) -> None:
    before = (folder / "stamp.json").read_bytes()
    told = compile_in(folder)
    assert "pages start slower" in told
    assert "pyodide.mjs" in told  # why
    assert (folder / precompile.LIBRARY).read_bytes() == b"sources"
    assert (folder / "stamp.json").read_bytes() == before
    assert sorted(path.name for path in folder.parent.iterdir()) == ["runtime"]


def test_without_node_it_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))
    assert "pyodide.mjs" in compile_in(folder), "Playwright's was there"
    monkeypatch.setattr(precompile, "VENV", folder)
    assert "there is no node" in compile_in(folder)


def test_it_is_compiled_once_and_only_where_there_is_a_library(folder: Path) -> None:
    stamp = json.loads((folder / "stamp.json").read_text())
    made = (precompile.BYTECODE, precompile.START_LIBRARY, precompile.SOURCES)
    files = {**stamp["files"], **dict.fromkeys(made, 3)}
    (folder / "stamp.json").write_text(json.dumps({**stamp, "files": files}))
    assert compile_in(folder) == ""
    assert "pyodide.mjs" in compile_in(folder, current=True), "sources have changed"
    (folder / "stamp.json").write_text(json.dumps({"lock": "any", "files": {}}))
    assert compile_in(folder, current=True) == ""
