"""Mixtures of experts outside of delegates, on this machine's GPU: all sizes, and all parts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import webpte
from support.cases.experts.moe_methods import KERNEL, moe_method
from support.cases.experts.quantized_moe_cases import Moe, case
from support.devices.native import make_device, need_native
from support.graphs.offloading import places
from support.write.pte_writer import write_pte
from webpte.engine.gpu.native.device import NativeDevice
from webpte.engine.ops.experts import quantized_moe


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


def device_like(name: str) -> NativeDevice:
    device = make_device("phone") if name == "phone" else asyncio.run(NativeDevice.create())
    device.info = replace(device.info, software=name == "software")
    return device


@pytest.mark.parametrize("name", ["gpu", "phone", "software"])
@pytest.mark.parametrize(
    "moe",
    [Moe(9, 4, 64, 48, score="sigmoid", bias=True, scale=2.5), Moe(4, 1, 32, 16, bits=8)],
    ids=lambda moe: moe.score,
)
def test_every_number_of_tokens(moe: Moe, name: str) -> None:
    data = write_pte(moe_method(moe, 33, (moe.packed(0), moe.packed(1))))

    async def run(device: Any) -> None:
        async with await webpte.load(data, device=device) as program:
            assert places(program) == {KERNEL: "gpu"}
            for tokens in (33, 1, 2, 17, 33, 1):
                x = moe.tokens(tokens)
                (got,) = await program.forward(x)
                np.testing.assert_allclose(got, moe.expect(x), rtol=1e-4, atol=1e-5)

    asyncio.run(run(device_like(name)))


def test_tokens_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute the middle of eleven tokens in four parts."""
    moe = Moe(5, 2, 32, 48)
    monkeypatch.setattr(quantized_moe, "MIDDLE_BYTES", 3 * 4 * 2 * 48)
    data = write_pte(moe_method(moe, 11, (moe.packed(0), moe.packed(1))))

    async def run(device: Any) -> None:
        async with await webpte.load(data, device=device) as program:
            (node,) = [node for node in program.graph().nodes if node.op == KERNEL]
            assert [kernel.name for kernel in node.kernels].count("moe_middle") == 4
            for tokens in (11, 3, 4):
                x = moe.tokens(tokens)
                (got,) = await program.forward(x)
                np.testing.assert_allclose(got, moe.expect(x), rtol=1e-4, atol=1e-5)

    asyncio.run(run(device_like("gpu")))


@pytest.mark.parametrize("name", ["gpu", "software"])
def test_a_layout_that_nothing_has_checked_gives_nan(name: str) -> None:
    """Only a graph that names the operator itself can have one."""
    moe = Moe(3, 2, 32, 16, header=(6712, 2))

    async def run(device: Any) -> None:
        async with await webpte.load(case(moe, (3,)).program(), device=device) as loaded:
            (got,) = await loaded.forward(moe.tokens(3), np.zeros(0, np.float32))
            assert np.isnan(got).all()

    asyncio.run(run(device_like(name)))
