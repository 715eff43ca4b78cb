"""Fusion of attention whose heads get biases or norms: one call in few dispatches."""

from __future__ import annotations

import numpy as np
import pytest

from support.decoders.head_graphs import (
    CHANGED,
    NOT_FUSED,
    ChangedHeads,
    changed_attention,
    changed_steps,
)
from support.graphs.graphs import build_graph, load, make_planner, wait
from webpte import Options
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops.core.target import Target
from webpte.engine.rewrite.fusion import fuse

KERNEL, REDUCE = "attention_flash_split_heads", "attention_flash_reduce"
TEN = Target(storage_buffers=10)


def names(case: ChangedHeads) -> list[str]:
    calls = fuse(build_graph(changed_attention(case).g)).calls
    return [call.name for call in calls if "view" not in call.name]


def kernels(case: ChangedHeads, target: Target = TEN) -> list[str]:
    planner, _ = make_planner(fuse(build_graph(changed_attention(case).g)), target)
    planner.lower_all()
    return [dispatch.kernel for dispatch in planner.dispatches()]


@pytest.mark.parametrize("case", CHANGED + NOT_FUSED, ids=str)
def test_attention_stays_what_it_was(case: ChangedHeads) -> None:
    """Outputs and caches stay the same from call to call."""
    net = changed_attention(case)
    steps = changed_steps(net, case)

    async def run(device: object) -> list[np.ndarray]:
        async with await load(net.g, device=device, options=Options()) as program:
            return [output for step in steps for output in await program.forward(*step)]

    assert names(case) == ["et_vk.select_as_symint.default", "webpte.head_attention"]
    for got, want in zip(wait(run(SimulatedDevice())), wait(run("numpy")), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", CHANGED[:-2], ids=str)
def test_few_tokens_take_three_dispatches(case: ChangedHeads) -> None:
    first, *rest = kernels(case)
    assert first in ("gemv_q4_qkv", "linear_q4_skinny_qkv", "gemv_multi")
    assert rest == [KERNEL, REDUCE]


@pytest.mark.parametrize("case", CHANGED[-2:] + NOT_FUSED, ids=str)
def test_others_run_call_by_call(case: ChangedHeads) -> None:
    assert KERNEL not in kernels(case)


def test_devices_with_fewer_buffers_run_call_by_call() -> None:
    assert KERNEL not in kernels(CHANGED[0], Target(storage_buffers=9))
    assert KERNEL not in kernels(CHANGED[0], Target(software=True))


def test_a_norm_that_others_read_is_left_alone() -> None:
    net = changed_attention(CHANGED[0])
    normed = next(i for i, (dims, _) in net.g.shapes.items() if dims == (1, 1, 4, 16))
    net.g.outputs(normed)
    calls = [call.name for call in fuse(build_graph(net.g)).calls]
    assert "webpte.head_attention" not in calls
