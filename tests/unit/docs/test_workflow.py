"""The workflow for GitHub Pages: its actions are pinned, and serve.py has its commands."""

from __future__ import annotations

import re

import pytest

from support.docs.documents import check_serve
from webpte_host.base.layout import ROOT

TEXT = (ROOT / ".github" / "workflows" / "pages.yml").read_text(encoding="utf-8")


def test_actions_are_pinned() -> None:
    """A tag can be moved, a commit cannot; the version beside it is for people."""
    used = re.findall(r"^ +- (?:id: \w+\n +)?uses: (.+)$", TEXT, re.M)
    assert len(used) == TEXT.count("uses:")
    for action in used:
        assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_commands_are_those_of_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = re.findall(r"run: (.+)$", TEXT, re.M)
    assert commands == ["python3 serve.py build site --notebooks --docs"]
    for command in commands:
        check_serve(command.split()[2:], monkeypatch)
    assert re.search(r"^ +path: site$", TEXT, re.M)


def test_what_the_cache_holds_decides_its_key() -> None:
    named = re.findall(r"'([^']+)'", re.findall(r"hashFiles\((.+)\)", TEXT)[0])
    assert all(list(ROOT.glob(pattern)) for pattern in named)
    for name in ("site/build_notebooks.py", "site/reference.py"):  # each pins an environment
        assert f"pysrc/webpte_host/{name}" in named
