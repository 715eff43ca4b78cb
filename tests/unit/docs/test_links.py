"""Links of the docs are not broken, and every page is linked."""

from __future__ import annotations

import re
from pathlib import Path

from support.docs.documents import documents, prose
from support.harness.every import check_every
from webpte_host.base.layout import ROOT

_LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(path: Path) -> set[str]:
    """Return the anchors of the headings, as GitHub forms them."""
    titles = re.findall(r"^#+ (.*)$", prose(path), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(path: Path) -> list[str]:
    return [link for link in _LINK.findall(prose(path)) if "://" not in link]


def test_links_lead_somewhere() -> None:
    check_every(documents(), check_links)


def check_links(path: Path) -> None:
    for link in links(path):
        name, _, anchor = link.partition("#")
        target = (path.parent / name) if name else path
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_the_list_has_every_page() -> None:
    folder = ROOT / "docs"
    listed = {link.partition("#")[0] for link in links(folder / "README.md")}
    pages = {path.relative_to(folder).as_posix() for path in folder.glob("*/*.md")}
    assert pages <= listed
