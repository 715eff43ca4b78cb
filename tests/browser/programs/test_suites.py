"""The packed suites through `serve.py verify`, on WebGPU: the way a user runs them.

Every case runs natively, see tests/native/test_suites.py; of suites with one operator to a case, a
sample does here, if there is a driver for that.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.devices.native import why_not
from support.harness import extent
from support.write import pack_suite
from webpte_host.base.layout import ROOT
from webpte_host.commands.verify import case_id

SUITES = sorted((ROOT / "tests" / "suites").glob("*.zip"))
WHOLE = "models"
EVERY = 5


def sampled(path: Path) -> list[pack_suite.Entry]:
    entries = pack_suite.read_entries(path)
    every = path.stem == WHOLE or extent.everything() or why_not() is not None
    return entries if every else entries[::EVERY]


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_verify(path: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    entries = sampled(path)
    with pack_suite.unpacked(path) as folder:
        (folder / pack_suite.MANIFEST).write_text(json.dumps(entries), "utf-8")
        command = [sys.executable, "serve.py", "verify", str(folder), "--json", str(results)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith(f"{len(entries)} passed, 0 failed")
    reports = json.loads(results.read_text("utf-8"))
    assert [case_id(report) for report in reports] == [case_id(entry) for entry in entries]
    assert all(report["outputs"] for report in reports)
