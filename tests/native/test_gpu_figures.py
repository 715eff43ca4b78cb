"""Figures of this machine's adapter: peaks, and layers of a known model beside them."""

from __future__ import annotations

import asyncio

import pytest

from webpte.engine.gpu.devices import shared_device
from webpte.llm.gpu_figures import measure
from webpte.llm.gpu_figures.result import BenchRow, describe, read_result


def test_a_device_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "ALL", (measure.QWEN3,))
    told: list[tuple[int, int]] = []

    async def run() -> tuple[list[BenchRow], str]:
        device = await shared_device("native")
        rows = [row async for row in measure.measure_gpu(device, lambda *it: told.append(it[:2]))]
        return rows, describe(device.info, "a test", "1", rows).json()

    rows, saved = asyncio.run(run())
    assert told[0][0] == 0
    assert told[-1][0] == told[-1][1]
    assert {"peak: float32", "peak: memory", "a dispatch"} < {row.name for row in rows}
    shares = {row.name: row.share for row in rows if row.share is not None}
    assert [name.rpartition(" ")[2] for name in shares] == ["4", "decode"]  # tokens of a prompt
    assert all(0 < share < 10 for share in shares.values())
    assert all(row.value > 0 for row in rows)
    assert read_result(saved).rows == tuple(rows)
