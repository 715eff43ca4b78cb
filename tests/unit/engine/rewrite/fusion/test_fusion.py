"""Fusion: calls that become one, calls that must not, and unchanged results."""

from __future__ import annotations

import numpy as np
import pytest

from support.graphs.fusion_graphs import (
    ADD,
    CHOOSE,
    NORM,
    SHAPES,
    SIGMOID,
    SIZES,
    Net,
    Sizes,
    chains,
)
from support.graphs.graphs import build_graph, load, make_planner, run_once, wait
from webpte import Options
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.graph.graph import Graph
from webpte.engine.ops.core.target import Target
from webpte.engine.rewrite.fusion import fuse
from webpte.engine.rewrite.validate import check_defined

LINEAR, FLOAT = "et_vk.linear_q4gsw.default", "aten.linear.default"
CHAIN = "webpte.elementwise"
SUM, GATED, NORMED = "webpte.gemm_add", "webpte.gated_gemm", "webpte.normed_gemm"


def fused(net: Net) -> list[str]:
    """Return the names of the calls after fusion, without views."""
    graph = build_graph(net.g)
    result = fuse(graph)
    check_defined(result)
    assert [call.index for call in result.calls] == list(range(len(result.calls)))
    assert (result.inputs, result.outputs) == (graph.inputs, graph.outputs)
    return [call.name for call in result.calls if "view" not in call.name]


@pytest.mark.parametrize("kind", ["q4", "int8", "float", "rounded"])
@pytest.mark.parametrize("shape", SHAPES)
def test_answers_stay(shape: str, kind: str) -> None:
    """The simulated device checks graph, memory and shapes of fused calls."""
    graph, inputs = SHAPES[shape](SIZES[3], kind)
    (want,) = wait(run_once(graph, *inputs))
    (got,) = wait(run_once(graph, *inputs, device=SimulatedDevice(), fuse=True))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "kind", "name"),
    [
        ("residual", "q4", SUM),
        ("residual", "float", SUM),
        ("gated", "q4", GATED),
        ("gated", "int8", GATED),
        ("normed", "int8", NORMED),
        ("gated", "float", GATED),
        ("residual", "rounded", SUM),
        ("gated", "rounded", GATED),
        ("normed", "rounded", NORMED),
        ("normed", "float", NORMED),
    ],
)
def test_all_of_it_becomes_one_call(shape: str, kind: str, name: str) -> None:
    graph, _ = SHAPES[shape](SIZES[0], kind)
    assert [call.name for call in fuse(build_graph(graph)).calls] == [name]


def dispatches(graph: Graph, target: Target) -> list[str]:
    planner, _ = make_planner(graph, target)
    planner.lower_all()
    return [dispatch.kernel for dispatch in planner.dispatches()]


def test_what_no_kernel_does_at_once_runs_part_by_part() -> None:
    """Many rows, odd rows of weights, and software adapters, with scratch memory in between."""
    few, odd, many = Sizes(2, 64, 8), Sizes(2, 40, 8), Sizes(33, 64, 8)
    graphs = {
        sizes: fuse(build_graph(SHAPES["gated"](sizes, "q4")[0])) for sizes in (few, odd, many)
    }
    assert dispatches(graphs[few], Target()) == ["linear_q4_skinny_gated"]
    for sizes, product, software in (
        (odd, "linear_q4_skinny", False),
        (many, "linear_q4", False),
        (few, "linear_q4_simple", True),
    ):
        parts = ["norm", product, product, "fused_elementwise"]
        assert sorted(dispatches(graphs[sizes], Target(software))) == sorted(parts)


def test_a_norm_leaves_room_for_its_squares() -> None:
    """A workgroup of 256 has no shared memory left for squares; with 16 KB, not for 4 rows."""
    for shape, shared, most in (
        ("normed", 32768, 128),
        ("residual", 32768, 256),
        ("residual", 16384, 128),
    ):
        graph = fuse(build_graph(SHAPES[shape](Sizes(4, 4096, 8), "q4")[0]))
        planner, _ = make_planner(graph, Target(shared_bytes=shared))
        planner.lower_all()
        (dispatch,) = planner.dispatches()
        assert dict(dispatch.types)["THREADS"] == str(most)


def test_a_sum_that_is_no_residual_stays() -> None:
    net = Net()
    h, x = net.g.tensor((2, 64)), net.g.tensor((2, 8))
    net.finish((h, x), net.add(x, net.linear(h, 8), alpha=2))
    assert fused(net) == [LINEAR, ADD]


def test_a_product_that_others_read_stays() -> None:
    net = Net()
    h, x = net.g.tensor((2, 64)), net.g.tensor((2, 8))
    product = net.linear(h, 8)
    net.finish((h, x), net.add(x, product), product)
    assert fused(net) == [LINEAR, ADD]
    net = Net()
    h = net.g.tensor((2, 64))
    product = net.linear(h, 8)
    net.finish((h,), net.add(product, product), net.sigmoid(product))
    assert fused(net) == [LINEAR, ADD, SIGMOID]


def test_a_sum_of_a_product_with_itself_stays() -> None:
    net = Net()
    h = net.g.tensor((2, 64))
    product = net.linear(h, 8)
    net.finish((h,), net.add(product, product))
    assert fused(net) == [LINEAR, ADD]


def test_a_broadcast_sum_is_right() -> None:
    """A column plus a row has more elements than either."""
    net = Net()
    h, x = net.g.tensor((5, 64)), net.g.tensor((1, 5))
    product = net.linear(h, 1, "float")
    out = net.g.op(ADD, x, product, net.g.int(1), net.g.tensor((5, 5)))
    inputs = net.finish((h, x), out)
    (want,) = wait(run_once(net.g, *inputs))
    (got,) = wait(run_once(net.g, *inputs, device=SimulatedDevice(), fuse=True))
    np.testing.assert_allclose(got, want, rtol=1e-5)
    graph = fuse(build_graph(net.g))
    assert dispatches(graph, Target()) == ["matmul_skinny", "binary"]


def test_a_norm_that_others_read_stays_outside() -> None:
    net = Net()
    x = net.g.tensor((2, 64))
    norm = net.norm(x)
    net.finish((x,), net.swiglu(norm, 8), net.sigmoid(norm))
    assert fused(net) == [NORM, GATED, SIGMOID]


def test_products_of_different_inputs_are_not_gated() -> None:
    net = Net()
    x, y = net.g.tensor((2, 64)), net.g.tensor((2, 64))
    gate = net.linear(x, 8)
    net.finish((x, y), net.mul(net.mul(gate, net.sigmoid(gate)), net.linear(y, 8)))
    assert fused(net) == [LINEAR, LINEAR, CHAIN]


def test_a_gate_that_is_no_silu_stays() -> None:
    """x * sigmoid(y) of two products is not x * sigmoid(x)."""
    net = Net()
    x = net.g.tensor((2, 64))
    a, b = net.linear(x, 8), net.linear(x, 8)
    net.finish((x,), net.mul(net.mul(a, net.sigmoid(b)), net.linear(x, 8)))
    assert GATED not in fused(net)


@pytest.mark.parametrize("shape", ["gated", "normed"])
def test_floats_in_one_dispatch(shape: str) -> None:
    """The kernel takes few rows of whole quads."""
    for sizes in (SIZES[0], SIZES[2], SIZES[3], SIZES[6]):
        graph = fuse(build_graph(SHAPES[shape](sizes, "float")[0]))
        assert dispatches(graph, Target()) == ["gemv_multi"]
        assert dispatches(graph, Target(software=True))[0] == "norm"
    for sizes in (SIZES[4], SIZES[7]):
        graph = fuse(build_graph(SHAPES[shape](sizes, "float")[0]))
        assert "gemv_multi" not in dispatches(graph, Target())


def test_floats_with_a_bias_run_part_by_part() -> None:
    net = Net()
    x = net.g.tensor((2, 64))
    inputs = net.finish((x,), net.linear(net.norm(x), 8, "float", bias=True))
    assert fused(net) == [NORMED]
    assert dispatches(fuse(build_graph(net.g)), Target()) == ["norm", "matmul_skinny"]
    (want,) = wait(run_once(net.g, *inputs))
    (got,) = wait(run_once(net.g, *inputs, device=SimulatedDevice(), fuse=True))
    np.testing.assert_allclose(got, want, rtol=1e-5)


ROUNDED = "et_vk.linear_dq8ca_q4gsw.default"
INTEGERS = ["linear_q4_codes", "linear_q4_int8"]


@pytest.mark.parametrize("kind", ["rounded", "qd8"])
@pytest.mark.parametrize(
    ("shape", "one", "parts"),
    [
        ("residual", "gemv_q4", ["choose_qparams", *INTEGERS]),
        ("normed", "gemv_q4", ["norm", "choose_qparams", *INTEGERS]),
        (
            *("gated", "gemv_q4_gated"),
            ["norm", "choose_qparams", *INTEGERS, "linear_q4_int8", "fused_elementwise"],
        ),
    ],
)
def test_rounded_rows_in_one_dispatch(shape: str, one: str, parts: list[str], kind: str) -> None:
    """The norm, the choice of scales and zeros, and the GEMM fuse; many rows run one by one."""
    few = one.replace("gemv_q4", "linear_q4_skinny")
    for sizes, kernels in ((SIZES[0], [one]), (SIZES[3], [few]), (SIZES[4], parts)):
        graph = fuse(build_graph(SHAPES[shape](sizes, kind)[0]))
        assert dispatches(graph, Target()) == kernels
    graph = fuse(build_graph(SHAPES[shape](SIZES[0], kind)[0]))
    assert "choose_qparams_simple" in dispatches(graph, Target(software=True))


def test_a_rounding_that_others_need_stays() -> None:
    net = Net()
    x = net.g.tensor((2, 64))
    scale, _ = net.rounding(x)
    net.finish((x,), net.linear(x, 8, "rounded"), scale)
    assert fused(net) == [CHOOSE, ROUNDED]
    net = Net()
    x, y = net.g.tensor((2, 64)), net.g.tensor((2, 8))
    net.finish((x, y), net.add(y, net.linear(x, 8, "rounded")), net.linear(x, 8, "rounded"))
    assert sorted(fused(net)) == sorted([CHOOSE, ROUNDED, SUM])


def test_a_rounding_of_another_kind_runs_part_by_part() -> None:
    net = Net()
    x = net.g.tensor((2, 64))
    net.rounding(x, "SYMMETRIC")
    inputs = net.finish((x,), net.linear(x, 8, "rounded"))
    assert fused(net) == [NORMED]
    kernels = dispatches(fuse(build_graph(net.g)), Target())
    assert kernels == ["choose_qparams", "linear_q4_skinny"]
    (want,) = wait(run_once(net.g, *inputs))
    (got,) = wait(run_once(net.g, *inputs, device=SimulatedDevice(), fuse=True))
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_products_of_two_kinds_are_not_gated() -> None:
    net = Net()
    x = net.g.tensor((2, 64))
    gate = net.linear(x, 8, "float")
    net.finish((x,), net.mul(net.mul(gate, net.sigmoid(gate)), net.linear(x, 8)))
    assert fused(net) == [FLOAT, LINEAR, CHAIN]


def test_a_buffer_that_is_written_in_between_is_left_alone() -> None:
    """The GEMM reads the weight before it changes, so it must not move after that."""
    net = Net()
    h, x = net.g.tensor((2, 64)), net.g.tensor((2, 8))
    weight = net.constant(net.floats(8, 64))
    product = net.g.op(FLOAT, h, weight, net.g.null(), net.g.tensor((2, 8)))
    net.g.op("aten.alias_copy.default", net.constant(net.floats(8, 64)), weight)
    net.finish((h, x), net.add(x, product))
    assert fused(net) == [FLOAT, "aten.alias_copy.default", ADD]


def test_a_chain_of_element_wise_ops_becomes_one() -> None:
    for writer, inputs in chains():
        graph = fuse(build_graph(writer))
        assert [call.name for call in graph.calls] == [CHAIN]
        assert dispatches(graph, Target()) == ["fused_elementwise"]
        (want,) = wait(run_once(writer, *inputs))
        (got,) = wait(run_once(writer, *inputs, device=SimulatedDevice(), fuse=True))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_what_a_chain_does_not_take() -> None:
    """Results with other readers, broadcasts, integers, and too many inputs stay."""
    net = Net()
    x = net.g.tensor((3, 5))
    y = net.sigmoid(x)
    net.finish((x,), net.mul(x, y), y)
    assert fused(net) == [SIGMOID, "aten.mul.Tensor"]
    net = Net()
    x, row = net.g.tensor((3, 5)), net.g.tensor((5,))
    net.finish((x, row), net.sigmoid(net.mul(x, row)))
    assert fused(net) == ["aten.mul.Tensor", SIGMOID]
    net = Net()
    x = net.g.tensor((3,), "int32")
    y = net.g.op("aten.neg.default", x, net.g.tensor((3,), "int32"))
    out = net.g.op("aten.abs.default", y, net.g.tensor((3,), "int32"))
    net.g.inputs(x)
    net.g.outputs(out)
    assert fused(net) == ["aten.neg.default", "aten.abs.default"]
    net = Net()
    given = tuple(net.g.tensor((7,)) for _ in range(6))
    end = given[0]
    for other in given[1:]:
        end = net.add(end, other)
    net.finish(given, end)
    assert fused(net) == [CHAIN, CHAIN]


def test_a_single_row_may_be_as_long_as_the_live_tensor() -> None:
    """Up to 7 rows: with one row, multiplying by a row is no broadcast; with others it is."""
    net = Net()
    x, row = net.g.tensor((7, 5)), net.g.tensor((7, 5))
    net.g.host(x, dynamic=True)
    net.g.host(row, dynamic=True)
    net.finish((x, row), net.sigmoid(net.mul(x, row)))

    async def run(device: object) -> list[np.ndarray]:
        async with await load(net.g, device=device, options=Options()) as program:
            rng, found = np.random.default_rng(1), list[np.ndarray]()
            for rows in ((7, 7), (1, 1), (4, 1), (1, 1)):
                arrays = [rng.normal(size=(n, 5)).astype(np.float32) for n in rows]
                found += list(await program.forward(*arrays))
            return found

    for got, want in zip(wait(run(SimulatedDevice())), wait(run("numpy")), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_it_can_be_switched_off() -> None:
    async def count(fuse: bool) -> int:
        graph, inputs = SHAPES["gated"](SIZES[0], "q4")
        async with await load(
            graph, device=SimulatedDevice(), options=Options(fuse=fuse)
        ) as program:
            await program.forward(*inputs)
            return program.stats.dispatches

    assert (wait(count(True)), wait(count(False))) == (1, 6)


def test_shapes_between_the_parts_follow() -> None:
    """The view inside of a fused call follows a live batch of up to seven rows."""
    net = Net()
    x, size = net.g.tensor((7, 64)), net.g.symint(7)
    net.g.op("sym_size.int", x, net.g.int(0), size)
    sizes = net.g.value_list([net.g.int(1), size, net.g.int(8)])
    view = net.g.op("aten.view_copy.default", net.linear(x, 8), sizes, net.g.tensor((1, 7, 8)))
    y = net.g.tensor((1, 7, 8))
    net.g.host(x, dynamic=True)
    net.g.host(y, dynamic=True)
    net.finish((x, y), net.add(y, view))
    assert fused(net) == ["sym_size.int", SUM]

    async def run(device: object) -> list[np.ndarray]:
        async with await load(net.g, device=device, options=Options()) as program:
            rng = np.random.default_rng(1)
            found = []
            for rows in (7, 1, 4):
                arrays = [rng.normal(size=d).astype(np.float32) for d in ((rows, 64), (1, rows, 8))]
                found += list(await program.forward(*arrays))
            return found

    for got, want in zip(wait(run(SimulatedDevice())), wait(run("numpy")), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
