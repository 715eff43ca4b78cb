"""Fusion of attention with q, k, v and rotary embedding: one call in few dispatches."""

from __future__ import annotations

import numpy as np
import pytest

from support.graphs.fusion_graphs import HEADS, Heads, Net, attention, attention_steps
from support.graphs.graphs import build_graph, load, make_planner, wait
from webpte import Options
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.graph.graph import Graph
from webpte.engine.ops.core.target import Target
from webpte.engine.rewrite.fusion import fuse


def fused(net: Net) -> list[str]:
    return [call.name for call in fuse(build_graph(net.g)).calls if "view" not in call.name]


def dispatches(graph: Graph, target: Target) -> list[str]:
    planner, _ = make_planner(graph, target)
    planner.lower_all()
    return [dispatch.kernel for dispatch in planner.dispatches()]


@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_attention_stays_what_it_was(heads: Heads) -> None:
    """Outputs and caches stay the same from call to call."""
    net = attention(heads)
    steps = attention_steps(net, heads)

    async def run(device: object) -> list[np.ndarray]:
        async with await load(net.g, device=device, options=Options()) as program:
            return [output for step in steps for output in await program.forward(*step)]

    assert fused(net) == ["et_vk.select_as_symint.default", "webpte.attention_block"]
    for got, want in zip(wait(run(SimulatedDevice())), wait(run("numpy")), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


ROW, ROWS = ["gemv_q4"] * 3, ["linear_q4_skinny"] * 3


@pytest.mark.parametrize(
    ("heads", "buffers", "kernels"),
    [
        (HEADS[0], 9, ["gemv_q4_qkv", "attention_flash_split_rope"]),
        (HEADS[3], 9, ["linear_q4_skinny_qkv", "attention_flash_split_rope"]),
        (HEADS[0], 8, ["norm", *ROW, "rope", "attention_flash_split"]),
        (
            HEADS[4],
            9,
            ["norm", *ROWS, "rope", *["attention_cache_update"] * 2, "attention_flash_split"],
        ),
    ],
)
def test_attention_in_few_dispatches(heads: Heads, buffers: int, kernels: list[str]) -> None:
    graph = fuse(build_graph(attention(heads).g))
    assert dispatches(graph, Target(storage_buffers=buffers)) == [
        *kernels,
        "attention_flash_reduce",
    ]


def test_attention_whose_products_others_read_is_left_alone() -> None:
    net = attention(HEADS[0])
    values = next(i for i, (dims, _) in net.g.shapes.items() if dims == (1, 1, 32))
    net.g.outputs(values)
    assert "webpte.attention_block" not in fused(net)


def test_attention_of_floats() -> None:
    """Few tokens take as few dispatches; with many, the three GEMMs are one."""
    few, many = (fuse(build_graph(attention(heads, "float").g)) for heads in (HEADS[0], HEADS[5]))
    one = ["gemv_multi", "attention_flash_split_rope", "attention_flash_reduce"]
    assert dispatches(few, Target(storage_buffers=9)) == one
    assert dispatches(many, Target(storage_buffers=10))[:3] == ["norm", "gemm_small_qkv", "rope"]
    parts = dispatches(few, Target(software=True))
    assert parts[:4] == ["norm", *["matmul_simple"] * 3]


def test_attention_of_rounded_rows() -> None:
    graph = fuse(build_graph(attention(HEADS[1], "rounded").g))
    kernels = ["linear_q4_skinny_qkv", "attention_flash_split_rope", "attention_flash_reduce"]
    assert dispatches(graph, Target(storage_buffers=9)) == kernels
