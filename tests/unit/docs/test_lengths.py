"""The first pages are short, and the README has the figures of the performance page."""

from __future__ import annotations

import re

import pytest

from webpte_host.base.layout import ROOT


@pytest.mark.parametrize(
    ("page", "most"),
    [("README.md", 110), ("docs/README.md", 45), ("docs/reference/performance.md", 150)],
)
def test_a_page_is_short(page: str, most: int) -> None:
    assert len((ROOT / page).read_text(encoding="utf-8").splitlines()) <= most


def test_figures_of_the_readme_are_those_of_the_performance_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Speed\n")[2]
    rows = re.findall(r"^\| .*\|$", text.partition("\n## ")[0], re.M)[1:]
    cells = [cell for row in rows for cell in row.strip("|").split("|")[1:]]
    figures = {figure for cell in cells for figure in re.findall(r"\d[\d,.]*\d", cell)}
    measured = (ROOT / "docs/reference/performance.md").read_text(encoding="utf-8")
    assert len(rows) == 4
    assert len(figures) >= 12
    assert figures <= set(re.findall(r"\d[\d,.]*\d", measured))
