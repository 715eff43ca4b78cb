"""Fusion of biases, activations and residuals with quantized linear layers, and of gates."""

from __future__ import annotations

import numpy as np
import pytest

from support.decoders.epilogue_graphs import (
    EPILOGUES,
    GELU,
    RELU,
    EpilogueCase,
    gelu_gated,
    layer_norm,
    with_epilogue,
)
from support.graphs.fusion_graphs import ADD, Net, Sizes
from support.graphs.graphs import build_graph, make_planner, run_once, wait
from support.write.pte_writer import GraphWriter
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops.core.target import Target
from webpte.engine.rewrite.fusion import fuse

ENDING = "webpte.linear_epilogue"


def names(graph: GraphWriter) -> list[str]:
    return [call.name for call in fuse(build_graph(graph)).calls]


def kernels(graph: GraphWriter, target: Target | None = None) -> list[str]:
    planner, _ = make_planner(fuse(build_graph(graph)), target or Target(storage_buffers=8))
    planner.lower_all()
    return [dispatch.kernel for dispatch in planner.dispatches()]


def check(graph: GraphWriter, inputs: list[np.ndarray]) -> None:
    (want,) = wait(run_once(graph, *inputs))
    (got,) = wait(run_once(graph, *inputs, device=SimulatedDevice(), fuse=True))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", EPILOGUES, ids=str)
def test_a_linear_layer_with_its_epilogue_is_one_call(case: EpilogueCase) -> None:
    graph, inputs = with_epilogue(case)
    assert names(graph) == [ENDING]
    check(graph, inputs)


@pytest.mark.parametrize("case", [*EPILOGUES[:8], *EPILOGUES[11:13]], ids=str)
def test_few_rows_take_one_dispatch(case: EpilogueCase) -> None:
    kernel = "gemv_q4" if case.sizes.tokens == 1 else "linear_q4_skinny_epilogue"
    assert kernels(with_epilogue(case)[0]) == [kernel]


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        (EPILOGUES[8], ["norm", "linear_q4", "unary"]),
        (EPILOGUES[9], ["norm", "linear_q4", "fused_elementwise"]),
        (EPILOGUES[10], ["linear_q4", "binary"]),
        (EPILOGUES[14], ["norm_centered", "linear_q4", "unary"]),
    ],
    ids=str,
)
def test_many_rows_add_the_bias_in_the_gemm(case: EpilogueCase, wanted: list[str]) -> None:
    assert kernels(with_epilogue(case)[0]) == wanted
    assert "linear_q4_simple" in kernels(with_epilogue(case)[0], Target(software=True))


def test_a_layer_norm_of_a_few_rows_runs_by_itself() -> None:
    assert kernels(with_epilogue(EPILOGUES[13])[0]) == [
        "norm_centered",
        "linear_q4_skinny_epilogue",
    ]


def test_a_layer_norm_with_a_bias_stays() -> None:
    net = Net()
    x = net.g.tensor((1, 1, 64))
    y = net.linear(layer_norm(net, x, bias=True), 8, "int8")
    out = net.g.op(GELU, y, net.g.string("none"), net.like(y))
    inputs = net.finish((x,), out)
    assert names(net.g) == ["aten.native_layer_norm.default", ENDING]
    check(net.g, inputs)


def test_a_sum_that_is_no_bias_is_a_residual() -> None:
    """A constant of another shape, or an input, is not taken for a bias."""
    net = Net()
    x = net.g.tensor((1, 1, 64))
    column = net.g.tensor((1,))
    y = net.linear(x, 8, "int8")
    out = net.g.op(ADD, y, column, net.g.int(1), net.like(y))
    inputs = net.finish((x, column), out)
    assert ENDING not in names(net.g)
    check(net.g, inputs)


def test_what_others_read_is_not_fused() -> None:
    net = Net()
    x = net.g.tensor((1, 1, 64))
    y = net.linear(x, 8, "int8")
    gelu = net.g.op(GELU, y, net.g.string("none"), net.like(y))
    net.finish((x,), gelu, y)
    assert ENDING not in names(net.g)


GATED = [(Sizes(1, 64, 64), "q4"), (Sizes(1, 576, 100), "int8"), (Sizes(3, 64, 12), "int8")]
GATED += [(Sizes(1, 40, 7), "float"), (Sizes(17, 64, 8), "q4"), (Sizes(2, 64, 8), "rounded")]
GATED += [(Sizes(33, 64, 8), "q4")]


@pytest.mark.parametrize("op", [GELU, RELU])
@pytest.mark.parametrize(("sizes", "kind"), GATED, ids=str)
def test_gates(sizes: Sizes, kind: str, op: str) -> None:
    graph, inputs = gelu_gated(sizes, kind, op)
    assert names(graph) == ["webpte.gated_gemm"]
    check(graph, inputs)
    parts = {17: 2, 33: 4}  # the norm and the rest, or all by themselves
    assert len(kernels(graph)) == parts.get(sizes.tokens, 1)
