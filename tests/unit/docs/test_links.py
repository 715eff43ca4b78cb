"""Links of the docs lead somewhere, to every page there is one, and commits can be looked up."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.documents import documents, prose
from webpte_host.layout import ROOT

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_COMMIT = re.compile(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{7,40}\b")


def anchors(path: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", prose(path), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(path: Path) -> list[str]:
    return [link for link in _LINK.findall(prose(path)) if "://" not in link]


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    for link in links(path):
        name, _, anchor = link.partition("#")
        target = (path.parent / name) if name else path
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_the_list_has_every_page() -> None:
    folder = ROOT / "docs"
    listed = {link.partition("#")[0] for link in links(folder / "README.md")}
    assert {path.name for path in folder.glob("*.md")} - {"README.md"} <= listed


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_commits_are_in_the_history() -> None:
    """Figures say of which tree they are; one that nobody can look up says nothing."""
    if not shutil.which("git") or git("rev-parse", "--is-shallow-repository").stdout != "false\n":
        pytest.skip("no git, or no whole history")
    named = {commit for path in documents() for commit in _COMMIT.findall(prose(path))}
    assert named
    unknown = [one for one in named if git("merge-base", "--is-ancestor", one, "HEAD").returncode]
    assert not unknown
