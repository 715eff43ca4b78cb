"""docs/inside/glossary.md names places that exist."""

from __future__ import annotations

import re

from support.harness.every import check_every
from webpte_host.base.layout import ROOT

TEXT = (ROOT / "docs/inside/glossary.md").read_text(encoding="utf-8")
ROWS = [line.strip("| ").split(" | ") for line in TEXT.splitlines() if line.startswith("| ")]
BASES = (ROOT, ROOT / "pysrc/webpte")


def exists(place: str, beside: str) -> bool:
    """Tell whether a place exists, from the top, from the package, or next to `beside`."""
    if place.startswith("*"):
        return any((ROOT / "wgsl").rglob(place))
    bases = [*BASES, *((base / beside).parent for base in BASES)]
    return any(any(base.glob(place.rstrip("/"))) for base in bases)


def test_each_word_has_a_meaning_and_a_place() -> None:
    rows = [row for row in ROWS if row[0] not in ("word", "---")]
    check_every(rows, check_row, lambda row: row[0])


def check_row(row: list[str]) -> None:
    _, meaning, where = row
    assert meaning
    places = re.findall(r"`([^`]+)`", where)
    assert places
    for beside, place in zip([places[0], *places], places, strict=False):
        assert exists(place, beside), place
