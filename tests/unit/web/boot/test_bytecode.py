"""Compiled modules that outlive a visit."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Iterator
from dataclasses import make_dataclass
from pathlib import Path
from types import CodeType

import pytest

from boot import bytecode
from boot.bytecode import (
    Generated,
    Module,
    compiled_modules,
    pack,
    put_first,
    read_file,
    unpack,
    write_file,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)  # else files of an earlier visit stay there
    (tmp_path / "visited.py").write_text("ANSWER = 41\n", encoding="utf-8")
    yield tmp_path
    sys.modules.pop("visited", None)


def visit(folder: Path, *kept: dict[str, Module]) -> tuple[int, dict[str, Module]]:
    """Return the answer in a fresh file system, and the modules kept for the next visit."""
    for old in folder.glob("__pycache__/*"):
        old.unlink()
    sys.modules.pop("visited", None)
    importlib.invalidate_caches()
    put_first(*kept)
    try:
        module = importlib.import_module("visited")
    finally:
        del sys.meta_path[0]
    return module.ANSWER, unpack(pack(compiled_modules([module]), {}))[0]


def refuse(*given: object, **more: object) -> None:
    raise AssertionError("compiled")


def test_what_was_compiled_is_not_compiled_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, kept = visit(folder, {})
    assert (answer, len(kept)) == (41, 1)
    loader = importlib.machinery.SourceFileLoader
    with monkeypatch.context() as patch:
        patch.setattr(loader, "source_to_code", refuse)
        (folder / "visited.py").touch()
        assert visit(folder, kept) == (41, kept)
        (folder / "visited.py").write_text("ANSWER = 42\n", encoding="utf-8")
        with pytest.raises(AssertionError, match="compiled"):
            visit(folder, kept)
    answer, changed = visit(folder, kept)
    assert answer == 42
    assert changed != kept
    assert visit(folder, changed)[0] == 42


def test_of_several_the_one_that_was_compiled_from_this_source_is_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = visit(folder)[1]
    (folder / "visited.py").write_text("ANSWER = 42\n", encoding="utf-8")
    edited = visit(folder)[1]
    monkeypatch.setattr(importlib.machinery.SourceFileLoader, "source_to_code", refuse)
    assert visit(folder, shipped, edited) == (42, edited)
    assert visit(folder, {}, edited, shipped) == (42, edited)
    with pytest.raises(AssertionError, match="compiled"):
        visit(folder, shipped)


def test_a_file_with_modules_or_none(folder: Path) -> None:
    kept, file = visit(folder)[1], folder / "modules"
    assert read_file(file) == ({}, {})
    file.write_bytes(b"torn")
    assert read_file(file) == ({}, {})
    write_file(file, kept, {"1": compile("1", "", "eval")})
    modules, code = read_file(file)
    assert (modules, eval(code["1"])) == (kept, 1)


def test_a_module_that_became_a_package_is_found(folder: Path) -> None:
    kept = visit(folder, {})[1]
    (folder / "visited.py").unlink()
    (folder / "visited").mkdir()
    (folder / "visited" / "__init__.py").write_text("from visited.inner import ANSWER\n")
    (folder / "visited" / "inner.py").write_text("ANSWER = 43\n")
    answer, kept = visit(folder, kept)
    sys.modules.pop("visited.inner")
    assert answer == 43
    assert visit(folder, kept)[0] == 43
    sys.modules.pop("visited.inner")


def test_what_somebody_else_has_made_is_nothing() -> None:
    import marshal

    nothing: tuple[dict[str, Module], dict[str, CodeType]] = {}, {}
    assert unpack(b"") == nothing
    assert unpack(b"nonsense") == nothing
    assert unpack(marshal.dumps((sys.version, {"/a": b"b"}))) == nothing  # of an older page
    assert unpack(marshal.dumps(("2.7", {"/a": b"b"}, {}))) == nothing
    assert unpack(marshal.dumps(3)) == nothing


def made(kept: dict[str, CodeType]) -> tuple[object, dict[str, CodeType]]:
    """Build a dataclass with the code that the last visit kept; return the next visit's code."""
    generated = Generated(kept)
    try:
        point = make_dataclass("Point", [("x", int), ("y", int, 3)], frozen=True)
    finally:
        generated.end()
    return point(2), unpack(pack({}, generated.used))[1]


def test_what_dataclasses_have_compiled_is_not_compiled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    point, kept = made({})
    assert repr(point) == "Point(x=2, y=3)"
    assert kept

    monkeypatch.setattr(bytecode, "compile", refuse, raising=False)
    again, kept_again = made(kept)
    assert repr(again) == "Point(x=2, y=3)"
    assert hash(again) == hash((2, 3))
    assert kept_again.keys() == kept.keys()
    with pytest.raises(AssertionError, match="compiled"):
        made({})
    monkeypatch.undo()
    assert not hasattr(dataclasses, "exec")  # the built-in exec is at work again
