"""docs/inside/fusion.md has a row for each rule, by its name."""

from __future__ import annotations

import re
from pathlib import Path

from webpte.engine.rewrite.fusion import fuse
from webpte.engine.rewrite.fusion.engine import rounds


def test_every_rule_has_a_row(root: Path) -> None:
    text = (root / "docs/inside/fusion.md").read_text(encoding="utf-8")
    table = text.split("| rule |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \|", table, re.M)
    assert callable(fuse)  # importing the package adds the rules
    assert sorted(rows) == sorted(rule.__name__ for rules in rounds() for rule in rules)
