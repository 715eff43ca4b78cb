"""Kernels timed on this machine's GPU: tiny ones, to test the timing, not the figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.devices.native import need_native
from support.graphs.graphs import wait
from webpte import shared_device
from webpte.inspection.kernel_rates import Limits, TimeBudget
from webpte_export.suites import kernel_bench
from webpte_host.base.errors import HostError
from webpte_host.commands import bench

KERNELS = [
    {"op": "aten.mm.default", "args": [{"tensor": [3, 8]}, {"tensor": [8, 5], "constant": True}]},
    {"op": "aten.relu.default", "args": [{"tensor": [64], "dtype": "float16"}], "name": "halves"},
]


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


def test_times_are_the_clocks() -> None:
    async def run() -> list[dict[str, float]]:
        device = await shared_device("native")
        calls = kernel_bench.read_calls(KERNELS)
        budget = TimeBudget(warm_ms=0, runs=3)
        rows: list[dict[str, float]] = (
            await kernel_bench.figures_of(device, calls, budget, Limits(1024, 8))
        )["rows"]
        return rows

    for row in wait(run()):
        assert 0 < row["best_us"] <= row["us"]
        assert row["gbps"] == pytest.approx(row["bytes"] / row["us"] / 1e3)


def test_a_cpu_is_refused(tmp_path: Path) -> None:
    if not wait(shared_device("native")).info.software:
        pytest.skip("this machine has a GPU, which is welcome")
    (tmp_path / "list.json").write_text(json.dumps(KERNELS), encoding="utf-8")
    with pytest.raises(HostError, match="--software"):
        bench.main(["--kernels", str(tmp_path / "list.json")])
