"""docs/operators.md names exactly the operators that there are, family by family."""

from __future__ import annotations

import re
from pathlib import Path

from webpte.ops import lookup, registered_names


def documented(root: Path) -> dict[str, set[str]]:
    """Family to operators, from the table's rows."""
    text = (root / "docs" / "operators.md").read_text("utf-8")
    rows = re.findall(r"^\| (\w+) \| (`.*?) \|", text, re.MULTILINE)
    return {family: set(re.findall(r"`([^`]+)`", names)) for family, names in rows}


def test_every_operator_is_documented_with_its_family(root: Path) -> None:
    registered: dict[str, set[str]] = {}
    for name in registered_names():
        op = lookup(name)
        assert op is not None
        module = (op.scalar or op.lower).__module__
        registered.setdefault(module.rpartition(".")[2], set()).add(name)
    assert documented(root) == registered
