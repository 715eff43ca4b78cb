"""The packed suites through `serve.py verify`, on WebGPU: the way a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support import pack_suite
from webpte_host.layout import ROOT
from webpte_host.verify import case_id

SUITES = sorted((ROOT / "tests" / "suites").glob("*.zip"))


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_verify(path: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    entries = pack_suite.read_entries(path)
    with pack_suite.unpacked(path) as folder:
        command = [sys.executable, "serve.py", "verify", str(folder), "--json", str(results)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith(f"{len(entries)} passed, 0 failed")
    reports = json.loads(results.read_text("utf-8"))
    assert [case_id(report) for report in reports] == [case_id(entry) for entry in entries]
    assert all(report["outputs"] for report in reports)
