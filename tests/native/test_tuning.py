"""Tuning on a real clock: candidates are timed, chosen, kept, and give the same results."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import webpte
from support.devices.native import need_native
from support.graphs.fusion_graphs import Sizes, normed
from support.graphs.graphs import wait
from support.write.pte_writer import write_pte
from webpte.engine.gpu.native.device import NativeDevice
from webpte.engine.ops.gemm import gemv_q4
from webpte.engine.ops.gemm.lib.gemm import Types
from webpte.engine.ops.gemm.lib.packed_weights import PackedWeights
from webpte.inspection.tune import tuning

GRAPH, INPUTS = normed(Sizes(1, 576, 100), "q4")
PROGRAM = write_pte(GRAPH)


async def gpu() -> NativeDevice:
    """A device with a GPU's kernels, which have several tile configs."""
    need_native()
    device = await NativeDevice.create()
    device.info = replace(device.info, software=False)
    return device


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEBPTE_TUNING", str(tmp_path / "deep" / "tuning.json"))
    monkeypatch.setattr(tuning, "RUNS", 1)
    return tmp_path / "deep" / "tuning.json"


def test_tunes_keeps_and_uses(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        device, told = await gpu(), list[tuple[str, int, int]]()
        async with await webpte.load(PROGRAM, device=device) as program:
            (before,) = await program.forward(*INPUTS)
            monkeypatch.setattr(tuning, "GAIN", 10.0)  # the fastest, by any margin
            found = await program.tune("forward", *INPUTS, progress=lambda *t: told.append(t))
            (after,) = await program.forward(*INPUTS)
            kernels = program.kernels
        assert found.rows
        assert found.refused == ()
        for row in found.rows:
            assert len(row.microseconds) > 1
            assert min(row.microseconds.values()) == row.microseconds[row.chosen] > 0
            assert row.key in str(found)
        assert told[-1] == ("tune", len(told), len(told))
        np.testing.assert_allclose(after, before, rtol=0, atol=1e-4 * np.abs(before).max())
        (kept,) = json.loads(file.read_text()).values()
        assert kept == dict(found.choices)
        async with await webpte.load(PROGRAM, device=device) as again:
            await again.forward(*INPUTS)
            assert again.kernels <= kernels
            assert again.device_info.choices == ()  # they are the program's, not the device's

    wait(check())


def test_a_cut_that_computes_something_else_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong(gemv_q4.GemvConfig):
        """Leave out the last part of every sum."""

        def types(self, weights: PackedWeights, matrices: int) -> Types:
            given = dict(super().types(weights, matrices))
            return tuple((given | {"UNITS": str(weights.steps - 1)}).items())

    cuts = [c for c in gemv_q4.GEMV_CONFIGS if (c.threads, c.slices) != (64, 16)]
    monkeypatch.setattr(gemv_q4, "GEMV_CONFIGS", (*cuts, Wrong(64, 16)))

    async def check() -> None:
        async with await webpte.load(PROGRAM, device=await gpu()) as program:
            (before,) = await program.forward(*INPUTS)
            tuning = asyncio.ensure_future(program.tune("forward", *INPUTS, rest=0.01))
            meanwhile: list[np.ndarray] = []
            while not tuning.done():
                meanwhile += await program.forward(*INPUTS)
                await asyncio.sleep(0.002)
            found = await tuning
            (after,) = await program.forward(*INPUTS)
        for one in meanwhile[:-1]:  # the last may have come after it
            np.testing.assert_array_equal(one, before)
        assert len(meanwhile) > 5
        assert any(each.endswith(": 64/16") for each in found.refused)
        assert all("64/16" not in row.microseconds for row in found.rows)
        np.testing.assert_allclose(after, before, rtol=0, atol=1e-4 * np.abs(before).max())

    asyncio.run(check())
    assert file.exists()
