"""Lines of the docs fit an editor, except rows of tables and code."""

from __future__ import annotations

from support.docs.documents import documents, prose
from webpte_host.base.layout import ROOT

WIDEST = 140


def test_lines_are_not_too_wide() -> None:
    wide = [
        f"{path.relative_to(ROOT).as_posix()}: {line}"
        for path in [*documents(), ROOT / "CHANGELOG.md"]
        for line in prose(path).splitlines()
        if len(line) > WIDEST and not line.startswith("|")
    ]
    assert wide == []
