"""Near misses of the patterns, without a GPU: the kernels and their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.graphs.fusion_graphs import Net
from support.graphs.graphs import build_graph, load, make_planner, wait
from support.graphs.near_misses import NEAR_MISSES
from support.graphs.random_images import random_graph
from support.harness import extent
from support.write.pte_writer import GraphWriter
from webpte import Options
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops.core.target import Target
from webpte.engine.rewrite.fusion import fuse

TEN = Target(storage_buffers=10)


def kernels(name: str) -> list[str]:
    graph, _ = NEAR_MISSES[name]()
    planner, _ = make_planner(fuse(build_graph(graph)), TEN)
    planner.lower_all()
    return [dispatch.kernel for dispatch in planner.dispatches()]


async def run(graph: GraphWriter, steps: list[list[np.ndarray]], device: Any) -> list[np.ndarray]:
    async with await load(graph, device=device, options=Options()) as program:
        return [output for step in steps for output in await program.forward(*step)]


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_answers_stay(name: str) -> None:
    graph, steps = NEAR_MISSES[name]()
    fused, alone = (wait(run(graph, steps, device)) for device in (SimulatedDevice(), "numpy"))
    for got, want in zip(fused, alone, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("halves", [False, True])
def test_random_graphs_stay(halves: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check shapes, memory and order, and with f16 the element types of kernels."""
    monkeypatch.setattr(GraphWriter, "halves", halves)
    features = ("shader-f16",) if halves else ()
    for seed in range(50, extent.count(64, 350)):
        case = random_graph(seed)
        device = SimulatedDevice(features=features)
        fused, alone = (wait(run(case.graph, case.steps, d)) for d in (device, "numpy"))
        for got, want in zip(fused, alone, strict=True):
            largest = max(1.0, np.abs(want[np.isfinite(want)]).max(initial=0))
            tolerance = (2e-2 if halves else case.tolerance) * largest
            np.testing.assert_allclose(got, want, rtol=0, atol=tolerance, err_msg=f"seed {seed}")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("a sum larger than a product", ["gemm_small", "binary"]),
        ("a sum larger than few rows", ["matmul_skinny", "binary"]),
        (
            "an outer product of 4-bit gates",
            ["gemv_q4", "gemv_q4", "unary", "binary", "binary"],
        ),
        ("rows times themselves", ["norm", "matmul_skinny"]),
        ("no zeros around", ["gemm_small"]),
        ("one score", ["softmax_attention"]),
        ("three layers before three layers", ["gemm_small_qkv", "gemm_small_qkv", "unary"]),
        ("a softmax over two rows", ["strided", "matmul_skinny", "softmax", "matmul_skinny"]),
        ("rows that are other tokens", ["linear_q4_skinny_qkv", "attention_flash_split_rope"]),
    ],
)
def test_what_runs(name: str, wanted: list[str]) -> None:
    """Parts run one by one if the kernels do not take them, else at once."""
    assert kernels(name) == wanted


@pytest.mark.parametrize(("kind", "rows"), [("float", 3), ("float", 20), ("q4", 3)])
def test_a_sum_of_two_types_is_no_addend(kind: str, rows: int) -> None:
    """A GEMM of f16 and a residual of f32: each is read as its own type."""
    net, half = Net(), "float16"
    g, h, y = net.g, net.g.tensor((rows, 64), half), net.g.tensor((rows, 8))
    product = g.tensor((rows, 8), half)
    if kind == "float":
        weight = net.constant(net.floats(8, 64).astype(half))
        g.op("aten.linear.default", h, weight, g.null(), product)
    else:
        scales = net.constant(np.abs(net.floats(2, 8)).astype(half))
        codes = net.constant(net.codes(8, 32))
        g.op("et_vk.linear_q4gsw.default", h, codes, scales, g.int(32), g.null(), product)
    x, added = net.finish((h, y), net.add(y, product))

    async def run() -> int:
        device = SimulatedDevice(features=("shader-f16",))
        async with await load(g, device=device, options=Options()) as program:
            await program.forward(x.astype(half), added)
            return program.stats.dispatches

    assert wait(run()) == 2


def test_random_graphs_are_what_they_say() -> None:
    """Most random graphs have something to fuse."""
    graphs = [build_graph(random_graph(seed).graph) for seed in range(40)]
    some = [any(call.parts for call in fuse(graph).calls) for graph in graphs]
    assert sum(some) > 30
