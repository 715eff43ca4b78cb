"""Compiled modules that outlive a visit."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from page.bytecode import compiled_modules, pack, put_in_place, unpack


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "visited.py").write_text("ANSWER = 41\n", encoding="utf-8")
    yield tmp_path
    sys.modules.pop("visited", None)


def visit(folder: Path, files: dict[str, bytes]) -> tuple[int, dict[str, bytes]]:
    """A fresh file system, with what the last visit has kept."""
    for old in folder.glob("__pycache__/*"):
        old.unlink()
    sys.modules.pop("visited", None)
    importlib.invalidate_caches()
    put_in_place(files)
    module = importlib.import_module("visited")
    return module.ANSWER, unpack(pack(compiled_modules([module])))


def test_what_was_compiled_is_not_compiled_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, kept = visit(folder, {})
    assert (answer, len(kept)) == (41, 1)

    def refuse(*given: object, **more: object) -> None:
        raise AssertionError("compiled")

    loader = importlib.machinery.SourceFileLoader
    with monkeypatch.context() as patch:
        patch.setattr(loader, "source_to_code", refuse)
        (folder / "visited.py").touch()
        assert visit(folder, kept)[0] == 41
        (folder / "visited.py").write_text("ANSWER = 42\n", encoding="utf-8")
        with pytest.raises(AssertionError, match="compiled"):
            visit(folder, kept)
    assert visit(folder, kept)[0] == 42


def test_what_somebody_else_has_made_is_nothing() -> None:
    import marshal

    assert unpack(b"") == {}
    assert unpack(b"nonsense") == {}
    assert unpack(marshal.dumps(("2.7", {"/a": b"b"}))) == {}
    assert unpack(marshal.dumps(3)) == {}
