"""docs/reference/operators.md names exactly the existing operators, family by family."""

from __future__ import annotations

import re
from pathlib import Path

from webpte.engine.ops import lookup, registered_names


def documented(root: Path) -> dict[str, set[str]]:
    """Map families to operators, from the table's rows."""
    text = (root / "docs/reference/operators.md").read_text("utf-8")
    rows = re.findall(r"^\| (\w+) \| (`.*?) \|", text, re.MULTILINE)
    return {family: set(re.findall(r"`([^`]+)`", names)) for family, names in rows}


def registered() -> dict[str, set[str]]:
    families: dict[str, set[str]] = {}
    for name in registered_names():
        op = lookup(name)
        assert op is not None
        module = (op.scalar or op.lower).__module__
        families.setdefault(module.rpartition(".")[2], set()).add(name)
    return families


def pairs(families: dict[str, set[str]]) -> set[tuple[str, str]]:
    return {(family, name) for family, names in families.items() for name in names}


def test_every_operator_is_documented_with_its_family(root: Path) -> None:
    """The message names the missing operator, instead of two long tables."""
    told, there = pairs(documented(root)), pairs(registered())
    missing, gone = sorted(there - told), sorted(told - there)
    assert not missing, f"docs/reference/operators.md lacks {missing}"
    assert not gone, f"docs/reference/operators.md has {gone}, which is no operator of that family"
