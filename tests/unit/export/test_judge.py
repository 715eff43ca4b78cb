"""What was exported is run and judged, wherever one is."""

from __future__ import annotations

import asyncio
import json
import zipfile
from pathlib import Path

from webpte_export.check_export import judge


def first_case(root: Path, folder: Path) -> dict[str, object]:
    with zipfile.ZipFile(root / "tests" / "suites" / "beyond.zip") as archive:
        archive.extractall(folder)
    first: dict[str, object] = json.loads((folder / "manifest.json").read_text("utf-8"))[0]
    return first


def test_a_notebook_can_export(root: Path, tmp_path: Path) -> None:
    """A loop runs there already, as it does here."""

    async def cell() -> bool:
        return judge(tmp_path, first_case(root, tmp_path)).passed

    assert asyncio.run(cell())
