"""The kernels of a step of several answers."""

from __future__ import annotations

from dataclasses import replace

import webpte
from support.devices.plain_matrices import with_matrices
from support.devices.variants import LLAMAS, make_device, without_results
from support.graphs.graphs import wait
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.llm import Scheduler


async def kernels(device: SimulatedDevice) -> set[str]:
    """Return the kernels of steps of 20 rows, and of two."""
    async with (
        await webpte.load(LLAMAS[0], device=device) as program,
        Scheduler(program, slots=2, chunk=32) as scheduler,
    ):
        before = set(device.pipelines)
        for answer in [scheduler.submit([n, *range(9)], 3) for n in (1, 2)]:
            async for _ in answer:
                pass
    return {spec.label.split()[0] for spec in set(device.pipelines) - before}


def test_with_subgroup_matrices_queries_keys_and_values_are_one_gemm() -> None:
    device = make_device()
    device.info = replace(with_matrices(device.info), software=False)
    with without_results():
        found = wait(kernels(device))
    assert {"gemm_split_k_sum_qkv", "slot_rope", "slot_attention"} <= found
    assert "linear_q4_skinny_qkv" in found  # of two rows
    assert not {"linear_q4_subgroup_matrix", "rope"} & found


def test_without_them_a_skinny_kernel_has_them() -> None:
    device = make_device()
    with without_results():
        found = wait(kernels(device))
    assert {"linear_q4_skinny_qkv", "slot_rope", "slot_attention"} <= found
    assert "rope" not in found
