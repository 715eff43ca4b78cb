"""Mixtures of experts outside of delegates: where they run, and with which weights."""

from __future__ import annotations

import numpy as np
import pytest

import webpte
from support.cases.experts.moe_methods import KERNEL, moe_method
from support.cases.experts.quantized_moe_cases import Moe
from support.graphs.graphs import wait
from support.graphs.offloading import offloaded, places
from support.write.pte_writer import write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import ExecutionError

MOE = Moe(5, 2, 32, 48, score="sigmoid", bias=True, scale=2.5)
WEIGHTS = MOE.packed(0), MOE.packed(1)


@pytest.mark.parametrize("moe", [MOE, Moe(3, 3, 16, 16, bits=8)], ids=str)
def test_it_runs_on_the_gpu_for_any_number_of_tokens(moe: Moe) -> None:
    data = write_pte(moe_method(moe, 7, (moe.packed(0), moe.packed(1))))

    async def run() -> None:
        expected = await webpte.load(data, device="numpy")
        program = await webpte.load(data, device=SimulatedDevice())
        assert places(program) == {KERNEL: "gpu"}
        for tokens in (7, 1, 4, 7, 2):
            x = moe.tokens(tokens)
            (got,), (want,) = await program.forward(x), await expected.forward(x)
            np.testing.assert_allclose(want, moe.expect(x), rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(got, want)

    wait(run())


@pytest.mark.parametrize("which", [0, 1])
def test_another_layout_is_the_hosts_error(which: int) -> None:
    packed = [array.copy() for array in WEIGHTS]
    packed[which][:, 0] ^= 1
    data = write_pte(moe_method(MOE, 4, packed))

    async def run() -> None:
        program = await webpte.load(data, device=SimulatedDevice())
        assert places(program) == {KERNEL: "host"}
        (node,) = [node for node in program.graph().nodes if node.op == KERNEL]
        assert "packed as 6713, 1" in (node.why or "")
        with pytest.raises(ExecutionError, match=r"quantized_moe_ffn.*packed as 6713, 1"):
            await program.forward(MOE.tokens(3))

    wait(run())


def test_weights_that_are_given_stay_on_the_host() -> None:
    data = write_pte(moe_method(MOE, 4))

    async def run() -> None:
        program = await webpte.load(data, device=SimulatedDevice())
        assert places(program) == {KERNEL: "host"}
        (node,) = [node for node in program.graph().nodes if node.op == KERNEL]
        assert "packed_w13 is no constant" in (node.why or "")
        x = MOE.tokens(3)
        (found,) = await program.forward(x, *WEIGHTS)
        np.testing.assert_allclose(found, MOE.expect(x), rtol=1e-5, atol=1e-6)

    wait(run())


@pytest.mark.parametrize(("limit", "hosted"), [(1 << 20, 0), (WEIGHTS[0].nbytes - 1, 1)])
def test_weights_that_fit_no_buffer_stay_on_the_host(limit: int, hosted: int) -> None:
    async def run() -> None:
        limits = {"maxStorageBufferBindingSize": limit}
        contents, _ = await offloaded(moe_method(MOE, 4, WEIGHTS), limits=limits)
        assert len(contents.hosted) == hosted
        assert all("fits no buffer" in reason for reason in contents.hosted.values())

    wait(run())
