"""`verify` and `bench` with --device native, as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.devices.native import need_native
from support.graphs.graphs import wait
from support.harness import limits
from support.harness.samples import add_graph, numbers
from support.write.pte_writer import write_pte
from webpte import shared_device


@pytest.fixture(autouse=True)
def _driver() -> None:
    need_native()


def serve(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "serve.py"), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=limits.PROCESS_SECONDS
    )


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite of two cases: `right` passes, `wrong` fails."""
    (tmp_path / "add.pte").write_bytes(write_pte(add_graph()))
    x = numbers(2, 3)
    entries = []
    for case, golden in (("right", x + np.arange(3)), ("wrong", x)):
        (tmp_path / "x.bin").write_bytes(x.tobytes())
        (tmp_path / f"{case}.bin").write_bytes(golden.astype("float32").tobytes())
        tensor = {"shape": [2, 3], "dtype": "float32"}
        entry = {"op": "add", "case": case, "pte": "add.pte", "atol": 1e-5, "rtol": 1e-5}
        inputs, out = {**tensor, "path": "x.bin"}, {**tensor, "path": f"{case}.bin"}
        entries.append({**entry, "inputs": [inputs], "golden": out})
    (tmp_path / "manifest.json").write_text(json.dumps(entries), encoding="utf-8")
    return tmp_path


def test_verify(root: Path, suite: Path) -> None:
    info = wait(shared_device("native")).info
    done = serve(root, "verify", str(suite), "--device", "native")
    assert done.returncode == 1, done.stderr
    first, *_, last = done.stdout.strip().splitlines()
    assert first.startswith("adapter: ")
    assert info.description in first
    assert last == "1 passed, 1 failed"


@pytest.mark.thorough
def test_bench_refuses_a_cpu_except_with_software(root: Path, suite: Path) -> None:
    command = ("bench", str(suite / "add.pte"), "--device", "native", "--runs", "2")
    if wait(shared_device("native")).info.software:
        refused = serve(root, *command)
        assert refused.returncode == 1
        assert "is a CPU" in refused.stderr
        assert "--software" in refused.stderr
    done = serve(root, *command, "--software", "--json", str(suite / "figures.json"))
    assert done.returncode == 0, done.stderr
    figures = json.loads((suite / "figures.json").read_text("utf-8"))
    assert figures["forward"]["ms"] > 0
