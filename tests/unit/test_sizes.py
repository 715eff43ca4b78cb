"""Shelves have budgets of lines, classes a limit; long files and full folders are warned about."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from webpte_host.base.layout import ROOT

# Lines of Python of a shelf. A change that needs more removes as much elsewhere, or raises the
# number here and gives the reason in its commit.
BUDGET = {
    # with XNNPACK's delegates and language models, bfloat16, sorts, and ranges of integers
    "pysrc/webpte/engine": 47_500,
    # with the figures of a GPU, packed caches beside delegates, and bounds of numbers in schemas
    "pysrc/webpte/llm": 15_700,
    "pysrc/webpte/tasks": 11_100,  # with published layouts of models, drawings, compiled speech
    # with the session in four languages, compiled folders, the Hub's models, several traces
    "web/page": 28_000,
    "tests": 134_000,  # XNNPACK, compiled programs and speech, rewrites of exported graphs
}
CLASS_LINES = 300
# Classes that were longer when the limit came. They may shrink, not grow.
LONGER = {
    "pysrc/webpte/engine/run/method.py:Method": 312,
    "web/page/views/graph/panel.py:GraphPanel": 330,
    "web/page/views/chat/panel.py:ChatPanel": 337,
    "web/page/views/documents/panel.py:DocumentsPanel": 329,
    "web/page/sections/open/controller.py:OpenController": 307,
    "web/page/sections/run/controller.py:RunController": 353,
}
# Above these numbers a file or folder may have two subjects: the run prints a warning.
FILE_LINES, FOLDER_FILES = 500, 25
TOPS = ("pysrc", "web", "wgsl", "tests")


def code_files(top: Path) -> Iterator[Path]:
    kinds = {".py", ".js", ".mjs", ".wgsl", ".css", ".html"}
    return (path for path in top.rglob("*") if path.suffix in kinds)


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def large(root: Path) -> list[str]:
    """Describe the files and folders of code that may have two subjects."""
    files = [path for top in TOPS for path in code_files(root / top)]
    counts: dict[Path, int] = {}
    for path in files:
        counts[path.parent] = counts.get(path.parent, 0) + 1
    long = {path: count for path in files if (count := lines_of(path)) > FILE_LINES}
    full = {folder: count for folder, count in counts.items() if count > FOLDER_FILES}
    return [
        *(f"{path.relative_to(root)} has {count} lines" for path, count in long.items()),
        *(f"{folder.relative_to(root)} has {count} files" for folder, count in full.items()),
    ]


def long_classes(root: Path) -> dict[str, int]:
    """Return the lines of the classes above the limit without docstrings, by file and name."""
    found = {}
    for path in (path for top in TOPS for path in (root / top).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > CLASS_LINES:
            place = path.relative_to(root).as_posix()
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ClassDef):
                    found[f"{place}:{node.name}"] = _span(node) - _docstring_lines(node)
    return {name: count for name, count in found.items() if count > CLASS_LINES}


def _span(node: ast.ClassDef | ast.Expr) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _docstring_lines(node: ast.ClassDef) -> int:
    """Count the lines of texts that stand alone: the docstrings of a class and its methods."""
    alone = (one for one in ast.walk(node) if isinstance(one, ast.Expr))
    return sum(
        _span(one)
        for one in alone
        if isinstance(one.value, ast.Constant) and isinstance(one.value.value, str)
    )


@pytest.mark.parametrize("shelf", BUDGET)
def test_a_shelf_stays_within_its_budget(shelf: str) -> None:
    assert sum(map(lines_of, (ROOT / shelf).rglob("*.py"))) <= BUDGET[shelf]


def test_no_class_is_too_long() -> None:
    longer = {n: c for n, c in long_classes(ROOT).items() if c > LONGER.get(n, CLASS_LINES)}
    assert longer == {}, "split a class by subject, where few things cross the boundary"


@pytest.mark.filterwarnings("default:.*two subjects")
def test_large_files_and_folders_are_warned_about() -> None:
    assert sum(1 for _ in code_files(ROOT / "wgsl")) > 100
    if found := large(ROOT):
        warnings.warn("perhaps two subjects: " + "; ".join(found), stacklevel=1)


def test_sizes_are_counted(tmp_path: Path) -> None:
    """Otherwise the tests above could not fail."""
    folder = tmp_path / "pysrc/some"
    folder.mkdir(parents=True)
    for number in range(FOLDER_FILES):
        (folder / f"a{number}.py").touch()
    (folder / "a0.py").write_text("class Long:\n" + "    x = 0\n" * (FILE_LINES - 1))
    assert large(tmp_path) == []
    assert long_classes(tmp_path) == {"pysrc/some/a0.py:Long": FILE_LINES}
    (folder / "a0.py").write_text("\n" * (FILE_LINES + 1))
    (folder / "more.wgsl").touch()
    assert large(tmp_path) == [
        f"pysrc/some/a0.py has {FILE_LINES + 1} lines",
        f"pysrc/some has {FOLDER_FILES + 1} files",
    ]
    assert long_classes(tmp_path) == {}
