"""Lines of the docs fit an editor, except rows of tables and code."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.docs.documents import documents, prose
from webpte_host.base.layout import ROOT

WIDEST = 140


@pytest.mark.parametrize(
    "path",
    [*documents(), ROOT / "CHANGELOG.md"],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_lines_are_not_too_wide(path: Path) -> None:
    lines = [line for line in prose(path).splitlines() if not line.startswith("|")]
    assert not [line for line in lines if len(line) > WIDEST]
