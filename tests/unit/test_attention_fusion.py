"""Attention with all that comes before it: one call, in few dispatches, with its caches."""

from __future__ import annotations

import numpy as np
import pytest

from support.fusion_graphs import HEADS, Heads, Net, attention, attention_steps, llama_layers
from support.graphs import build_graph, load, make_planner, wait
from webpte.fusion import fuse
from webpte.gpu.recording import RecordingDevice
from webpte.graph import Graph
from webpte.ops.target import Target


def fused(net: Net) -> list[str]:
    return [call.name for call in fuse(build_graph(net.g)).calls if "view" not in call.name]


def dispatches(graph: Graph, target: Target) -> list[str]:
    planner, _ = make_planner(graph, target)
    planner.lower_all()
    return [dispatch.kernel for dispatch in planner.dispatches()]


@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_attention_stays_what_it_was(heads: Heads) -> None:
    """With its caches, from call to call."""
    net = attention(heads)
    steps = attention_steps(net, heads)

    async def run(device: object) -> list[np.ndarray]:
        async with await load(net.g, device=device, fuse=True) as program:
            return [output for step in steps for output in await program.forward(*step)]

    assert fused(net) == ["et_vk.select_as_symint.default", "webpte.attention_block"]
    for got, want in zip(wait(run(RecordingDevice())), wait(run("numpy")), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


ROW, ROWS = ["linear_q4_row"] * 3, ["linear_q4_vector"] * 3


@pytest.mark.parametrize(
    ("heads", "buffers", "kernels"),
    [
        (HEADS[0], 9, ["linear_q4_row_joined", "attention_rope"]),
        (HEADS[3], 9, ["linear_q4_joined", "attention_rope"]),
        (HEADS[0], 8, ["norm", *ROW, "rope", "attention_split"]),
        (HEADS[4], 9, ["norm", *ROWS, "rope", *["attention_update"] * 2, "attention_split"]),
    ],
)
def test_attention_in_few_dispatches(heads: Heads, buffers: int, kernels: list[str]) -> None:
    graph = fuse(build_graph(attention(heads).g))
    assert dispatches(graph, Target(storage_buffers=buffers)) == [*kernels, "attention_merge"]


def test_attention_whose_products_others_read_is_left_alone() -> None:
    net = attention(HEADS[0])
    values = next(i for i, (dims, _) in net.g.shapes.items() if dims == (1, 1, 32))
    net.g.outputs(values)
    assert "webpte.attention_block" not in fused(net)


@pytest.mark.parametrize("after", ["product", "residual"])
@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_the_product_after_attention(heads: Heads, after: str) -> None:
    net = attention(heads, after=after)
    steps = attention_steps(net, heads)

    async def run(device: object, fuse: bool) -> list[np.ndarray]:
        async with await load(net.g, device=device, fuse=fuse) as program:
            return [output for step in steps for output in await program.forward(*step)]

    assert fused(net) == ["et_vk.select_as_symint.default", "webpte.attention_block"]
    for got, want in zip(
        wait(run(RecordingDevice(), True)), wait(run("numpy", False)), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


MERGED, APART = ["linear_q4_row_merged"], ["attention_merge", "linear_q4_row"]


@pytest.mark.parametrize(
    ("heads", "target", "kernels"),
    [
        (HEADS[0], Target(storage_buffers=9), MERGED),
        (HEADS[0], Target(storage_buffers=9, shared_bytes=2800), APART),  # no room for shares
        (HEADS[0], Target(storage_buffers=8), APART),
        (HEADS[2], Target(storage_buffers=9), ["attention_merge", "linear_q4_vector"]),
        (HEADS[3], Target(storage_buffers=9), ["attention_merge", "linear_q4_vector"]),
    ],
)
@pytest.mark.parametrize("after", ["product", "residual"])
def test_one_row_is_added_up_by_its_product(
    heads: Heads, target: Target, kernels: list[str], after: str
) -> None:
    graph = fuse(build_graph(attention(heads, after=after).g))
    assert dispatches(graph, target)[-len(kernels) :] == kernels
    assert dispatches(graph, target).count("attention_merge") == kernels.count("attention_merge")


def test_large_rows_are_added_up_once() -> None:
    """Each of many workgroups would read many shares again."""
    large, small = llama_layers(1), llama_layers(1, heads=9, key_heads=3, hidden=1536)
    nine = Target(storage_buffers=9)
    assert "attention_merge" in dispatches(fuse(build_graph(large)), nine)
    assert dispatches(fuse(build_graph(small)), nine) == [
        *("linear_q4_row_joined", "attention_rope", "linear_q4_row_merged"),
        *("linear_q4_row_gated", "linear_q4_row"),
    ]


def test_what_is_in_no_memory_is_read_by_nobody_else() -> None:
    """The sum's other operand is attention's own result, or one of the values before it."""
    for dims in ((1, 1, 64), (1, 1, 32)):
        heads = Heads(1, 4 if dims[-1] == 64 else 2, 2, 16)
        net = attention(heads)
        flat = net.view(net.g.output_ids.pop(), *dims)
        net.g.outputs(net.add(net.linear(flat, dims[-1]), flat))
        names = fused(net)
        assert names[1:] == ["webpte.attention_block", "webpte.product_add"]


def test_a_cache_that_another_call_reads_keeps_its_place() -> None:
    """Attention would write to it later, with what it is fused with: after it was read."""
    net = attention(HEADS[0], after="residual")
    cache = next(i for i, (dims, _) in net.g.shapes.items() if len(dims) == 4 and dims[1] == 131)
    read = net.like(cache)
    net.g.op("aten.neg.default", cache, read)
    net.g.outputs(read)
    names = fused(net)
    assert names[1:3] == ["webpte.attention_block", "webpte.product_add"]


def test_attention_of_floats() -> None:
    """In as few for few tokens; for many, the three products in one."""
    few, many = (fuse(build_graph(attention(heads, "float").g)) for heads in (HEADS[0], HEADS[5]))
    one = ["matmul_several", "attention_rope", "attention_merge"]
    assert dispatches(few, Target(storage_buffers=9)) == one
    assert dispatches(many, Target(storage_buffers=10))[:3] == ["norm", "matmul_joined", "rope"]
    parts = dispatches(few, Target(software=True))
    assert parts[:4] == ["norm", *["matmul_simple"] * 3]


def test_attention_of_rounded_rows() -> None:
    graph = fuse(build_graph(attention(HEADS[1], "rounded").g))
    kernels = ["linear_q4_joined", "attention_rope", "attention_merge"]
    assert dispatches(graph, Target(storage_buffers=9)) == kernels
