"""The packed suites through `serve.py verify`, on WebGPU: the way a user runs them.

Every case runs natively, see tests/native/test_suites.py; a sample does here, if
there is a driver for that. All are one suite here, since each `verify` starts a browser and its
Python.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from support.devices.native import why_not
from support.harness import extent
from support.write import pack_suite
from webpte_host.base.layout import ROOT
from webpte_host.commands.verify import case_id

SUITES = sorted((ROOT / "tests" / "suites").glob("*.zip"))
MODELS = "models"
EVERY, EVERY_MODEL = 48, 6


def sampled(path: Path) -> list[pack_suite.Entry]:
    entries = pack_suite.read_entries(path)
    if extent.everything() or why_not() is not None:
        return entries
    return entries[:: EVERY_MODEL if path.stem == MODELS else EVERY]


def moved(found: Any, folder: str) -> Any:
    """Copy a part of a manifest, with its files in a folder."""
    if isinstance(found, list):
        return [moved(item, folder) for item in found]
    if isinstance(found, dict):
        named = {key: f"{folder}/{found[key]}" for key in ("pte", "path") if key in found}
        return {key: moved(item, folder) for key, item in found.items()} | named
    return found


def test_verify(tmp_path: Path) -> None:
    suite, results = tmp_path / "suite", tmp_path / "results.json"
    entries = []
    for path in SUITES:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(suite / path.stem)
        for entry in moved(sampled(path), path.stem):
            entries.append({**entry, "op": f"{path.stem}:{entry['op']}"})
    assert len(entries) > 15
    (suite / pack_suite.MANIFEST).write_text(json.dumps(entries), "utf-8")
    command = [sys.executable, "serve.py", "verify", str(suite), "--json", str(results)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith(f"{len(entries)} passed, 0 failed")
    reports = json.loads(results.read_text("utf-8"))
    assert [case_id(report) for report in reports] == [case_id(entry) for entry in entries]
    assert all(report["outputs"] for report in reports)
