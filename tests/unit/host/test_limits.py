"""Time limits of tests are in one place, generous enough for a busy machine."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

# Tests of pages that hang, whose limits are short on purpose.
HANGING = "test_harness.py"


def numbers_in(path: Path) -> Iterator[int]:
    """List lines with a limit that is a number, or computed from one."""
    text = path.read_text("utf-8")
    if "timeout=" not in text:  # parsing all of them takes seconds
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.keyword) and node.arg == "timeout":
            names = [part for part in ast.walk(node.value) if isinstance(part, ast.Name)]
            if not names:
                yield node.value.lineno


def test_no_test_has_a_limit_of_its_own(root: Path) -> None:
    paths = [*(root / "tests").rglob("*.py")]
    found = [f"{path.name}:{line}" for path in paths for line in numbers_in(path)]
    assert [where for where in found if not where.startswith(HANGING)] == []
    assert found != []  # it can find them
