"""The check of an export, with and without a running event loop."""

from __future__ import annotations

import asyncio
import json
import zipfile
from pathlib import Path

from webpte_export.check_export import check_on_numpy


def first_case(root: Path, folder: Path) -> dict[str, object]:
    with zipfile.ZipFile(root / "tests" / "suites" / "beyond.zip") as archive:
        archive.extractall(folder)
    first: dict[str, object] = json.loads((folder / "manifest.json").read_text("utf-8"))[0]
    return first


def test_a_notebook_can_export(root: Path, tmp_path: Path) -> None:
    """A notebook has a running event loop, as this test has."""

    async def cell() -> bool:
        return check_on_numpy(tmp_path, first_case(root, tmp_path)).passed

    assert asyncio.run(cell())
