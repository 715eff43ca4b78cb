"""docs/inside/extending.md: a copy of the project is changed as recipes say, and tested."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.docs.documents import Block, blocks_of
from webpte_host.base.layout import ROOT

DOCUMENT = ROOT / "docs/inside/extending.md"
COPIED = (
    "pyproject.toml",
    "docs/reference/kernels.md",
    "docs/reference/operators.md",
    "pysrc/webpte",
    "pysrc/webpte_export",
    "pysrc/webpte_host",
    "tests/conftest.py",
    "tests/support",
    "tests/unit/engine/portable/test_document.py",
    "tests/unit/engine/ops/test_reference.py",
    "tests/unit/engine/rewrite/fusion/test_fusion.py",
    "tests/unit/docs/test_operators_doc.py",
    "tests/unit/tasks/test_tasks.py",
    "wgsl",
)
QUIET = ("-q", "-p", "no:cacheprovider")
_PLACE = re.compile(r"# (?P<file>[\w/.]+), (?:a new file|(?P<side>after|before): (?P<line>.*))")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code, which the recipes change one after the other."""
    folder = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in COPIED:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=ignored)
        else:
            shutil.copy(source, target)
    (folder / "tests/data").symlink_to(ROOT / "tests/data")  # no recipe changes it
    return folder


def recipe(heading: str) -> list[Block]:
    """Return the Python blocks of a section."""
    text = DOCUMENT.read_text(encoding="utf-8")
    begin = text.count("\n", 0, text.index(f"\n## {heading}\n"))
    following = re.search(r"^## ", text.split(f"\n## {heading}\n")[1], re.M)
    assert following is not None
    end = begin + text.split(f"\n## {heading}\n")[1].count("\n", 0, following.start())
    inside = [block for block in blocks_of(DOCUMENT) if begin < block.line <= end + 1]
    return [block for block in inside if block.language == "python"]


def follow(block: Block, folder: Path) -> None:
    """Write a new file, or insert lines next to a line of an existing one."""
    place, _, text = block.text.partition("\n")
    match = _PLACE.fullmatch(place)
    assert match is not None, place
    path = folder / match["file"]
    if match["line"] is None:
        assert not path.exists(), path
        path.write_text(text, encoding="utf-8")
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    found = [i for i, line in enumerate(lines) if line.lstrip().startswith(match["line"])]
    assert len(found) == 1, (place, found)
    lines.insert(found[0] + (match["side"] == "after"), text)
    path.write_text("".join(lines), encoding="utf-8")


def run(folder: Path, *arguments: str) -> str:
    # The paths of this test's own project must not win over the copy's.
    env = {**os.environ, "PYTHONPATH": "pysrc", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.thorough
def test_an_operator(copy: Path) -> None:
    for block in recipe("An operator"):
        follow(block, copy)
    operators = copy / "docs/reference/operators.md"
    text = operators.read_text(encoding="utf-8")
    operators.write_text(
        text.replace("| unary | ", "| unary | `aten.exp2.default`, ", 1), encoding="utf-8"
    )
    run(copy, "tests/unit/engine/portable/test_document.py")
    assert re.search(
        r"`aten::exp2.out`.* GPU \|$", (copy / "docs/reference/kernels.md").read_text(), re.M
    )
    tests = ["tests/unit/engine/ops/test_reference.py", "tests/unit/docs/test_operators_doc.py"]
    wanted = "exp2 or every_op"
    said = run(copy, "-m", "pytest", *QUIET, *tests, "-k", wanted)
    assert int(re.findall(r"(\d+) passed", said)[0]) >= 3


def test_a_task(copy: Path) -> None:
    for block in recipe("A task"):
        follow(block, copy)
    wanted = "saliency or every_task"
    said = run(copy, "-m", "pytest", *QUIET, "tests/unit/tasks/test_tasks.py", "-k", wanted)
    assert int(re.findall(r"(\d+) passed", said)[0]) == 2


def test_a_rule_of_fusion(copy: Path) -> None:
    for block in recipe("A rule of fusion"):
        follow(block, copy)
    tests = [
        "tests/unit/engine/rewrite/fusion/test_masked_softmax.py",
        "tests/unit/engine/rewrite/fusion/test_fusion.py",
    ]
    wanted = "masked or becomes_one"
    said = run(copy, "-m", "pytest", *QUIET, *tests, "-k", wanted)
    assert int(re.findall(r"(\d+) passed", said)[0]) >= 4
