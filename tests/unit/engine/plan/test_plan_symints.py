"""SymInts in the planner: their sources, the calls that depend on them, and their bounds."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from support.graphs.graphs import build_graph, make_planner, temporary_op
from support.write.pte_writer import GraphWriter
from webpte.engine.graph.graph import Graph
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.records import SymIntBound
from webpte.engine.ops.core.target import Target
from webpte.engine.plan.planner import Planner, check_bounds
from webpte.engine.rewrite.validate import SymIntSource, read_symint, resolve_ops, symint_sources
from webpte.errors import GraphError, ResizeError, UnsupportedError, ValueKindError

RELU = "aten.relu.default"


def lowered(g: GraphWriter) -> tuple[Planner, LiveState]:
    planner, live = make_planner(build_graph(g))
    planner.lower_all()
    return planner, live


class Decode:
    """pos = input[-1]; end = pos + size of x; half = end // 2; x is viewed as [size, 2]."""

    def __init__(self) -> None:
        g = GraphWriter()
        self.x, self.position = g.tensor((16, 2)), g.tensor((1, 3), "int64")
        self.pos, self.size = g.symint(0), g.symint(16)
        self.end, self.half = g.symint(16), g.symint(8)
        g.op("et_vk.select_as_symint.default", self.position, g.int(-1), g.int(-1), self.pos)
        flat = g.op("aten.view_copy.default", self.x, g.int_list([-1]), g.tensor((32,)))
        relu = g.op(RELU, flat, g.tensor((32,)))
        g.op("sym_size.int", self.x, g.int(0), self.size)
        self.view = g.op(
            "aten.view_copy.default", relu, g.value_list([self.size, g.int(2)]), g.tensor((16, 2))
        )
        g.op("add", self.pos, self.size, self.end)
        g.op("floordiv", self.end, g.int(2), self.half)
        g.inputs(self.x, self.position)
        g.outputs(self.view)
        self.graph = build_graph(g)
        self.planner, self.live = make_planner(self.graph)
        self.planner.lower_all()

    def symints(self) -> tuple[int, ...]:
        return tuple(self.live.symint(i) for i in (self.pos, self.size, self.end, self.half))


def test_symints_are_right_before_anything_is_dirty() -> None:
    decode = Decode()
    assert decode.symints() == (0, 16, 16, 8)
    assert not decode.live.dirty


def test_symints_that_the_file_has_wrong_are_right_after_building() -> None:
    g = GraphWriter()
    x = g.tensor((6, 2))
    size, double = g.symint(99), g.symint(1)
    g.op("sym_size.int", x, g.int(-2), size)
    g.op("mul", size, g.int(2), double)
    out = g.op("aten.view_copy.default", x, g.value_list([double]), g.tensor((12,)))
    g.inputs(x)
    g.outputs(out)
    _, live = lowered(g)
    assert (live.symint(size), live.symint(double)) == (6, 12)
    assert live.cur_dims(out) == (12,)


def test_symints_follow_sizes_and_each_other() -> None:
    decode = Decode()
    decode.live.set_cur_dims(decode.x, (5, 2))
    decode.live.set_symint(decode.pos, 4)
    decode.planner.propagate_resize()
    assert decode.symints() == (4, 5, 9, 4)
    assert decode.live.cur_dims(decode.view) == (5, 2)


def test_a_position_that_no_op_reads_lowers_nothing() -> None:
    decode = Decode()
    count = decode.planner.lowerings
    decode.planner.changed = False
    decode.live.set_symint(decode.pos, 3)
    decode.planner.propagate_resize()
    assert decode.symints() == (3, 16, 19, 9)
    assert decode.planner.lowerings == count
    assert not decode.planner.changed


def test_sym_size_of_an_intermediate_is_its_live_size() -> None:
    g = GraphWriter()
    x = g.tensor((8, 3))
    a = g.op(RELU, x, g.tensor((8, 3)))
    n = g.symint(8)
    g.op("sym_size.int", a, g.int(0), n)
    out = g.op("aten.view_copy.default", a, g.value_list([g.int(3), n]), g.tensor((3, 8)))
    g.inputs(x)
    g.outputs(out)
    planner, live = lowered(g)
    live.set_cur_dims(x, (2, 3))
    planner.propagate_resize()
    assert live.symint(n) == 2
    assert live.cur_dims(out) == (3, 2)


@pytest.mark.parametrize(
    ("name", "a", "b", "result"),
    [
        ("add", 5, -7, -2),
        ("sub", 5, 7, -2),
        ("mul", -3, 4, -12),
        ("floordiv", 7, 2, 3),
        ("floordiv", -7, 2, -4),
        ("floordiv", 7, -2, -4),
        ("floordiv", -8, -2, 4),
    ],
)
def test_symint_arithmetic(name: str, a: int, b: int, result: int) -> None:
    g = GraphWriter()
    x, out = g.tensor((2,)), g.symint(0)
    g.op(name, g.symint(a), g.int(b), out)
    g.inputs(x)
    g.outputs(x)
    _, live = lowered(g)
    assert live.symint(out) == result


@pytest.mark.parametrize(
    ("name", "a", "b", "message"),
    [
        ("floordiv", 7, 0, r"op 0 \(floordiv\): 7 divided by zero"),
        ("mul", 2**30, 2, r"op 0 \(mul\).* 2147483648 does not fit into 32 bits"),
        ("floordiv", -(2**31), -1, r"op 0 \(floordiv\).* 2147483648 does not fit"),
    ],
)
def test_symint_arithmetic_that_has_no_answer(name: str, a: int, b: int, message: str) -> None:
    g = GraphWriter()
    x = g.tensor((2,))
    g.op(name, g.symint(a), g.int(b), g.symint(0))
    g.inputs(x)
    g.outputs(x)
    with pytest.raises((GraphError, ResizeError), match=message):
        lowered(g)


def test_a_result_that_is_no_symint() -> None:
    """Exports with static shapes keep `sym_size`, with an int for its result: it does nothing."""
    g = GraphWriter()
    x = g.tensor((4, 2))
    g.op("sym_size.int", x, g.int(0), g.int(4))
    g.inputs(x)
    g.outputs(x)
    planner, _ = lowered(g)
    assert planner.dispatches() == ()


def test_where_symints_come_from() -> None:
    decode = Decode()
    graph = decode.graph
    (source,) = symint_sources(graph, resolve_ops(graph))
    assert source == SymIntSource(decode.pos, decode.position, dim=1, index=-1)
    assert read_symint(source, np.array([[4, 5, 6]])) == 6


@pytest.mark.parametrize(
    ("shape", "dim", "index", "expected"),
    [((3,), 0, 1, 1), ((3,), 0, -1, 2), ((2, 3), 0, 1, 3), ((2, 3), 1, -2, 1), ((), 0, 0, 0)],
)
def test_other_dims_are_read_at_0(
    shape: tuple[int, ...], dim: int, index: int, expected: int
) -> None:
    array = np.arange(np.prod(shape, dtype=int), dtype=np.int64).reshape(shape)
    assert read_symint(SymIntSource(9, 0, dim, index), array) == expected


def test_an_index_outside_of_the_live_size() -> None:
    with pytest.raises(GraphError, match="index 3 is outside a dim of size 2"):
        read_symint(SymIntSource(9, 0, 0, 3), np.array([1, 2]))


def test_an_element_of_an_empty_input() -> None:
    with pytest.raises(GraphError, match="outside a dim of size 0"):
        read_symint(SymIntSource(9, 0, 0, 0), np.zeros((2, 0), np.int64))


def test_only_inputs_can_be_read_on_the_host() -> None:
    g = GraphWriter()
    x = g.tensor((4,), "int32")
    a = g.op(RELU, x, g.tensor((4,), "int32"))
    g.op("et_vk.select_as_symint.default", a, g.int(0), g.int(0), g.symint(0))
    g.inputs(x)
    g.outputs(a)
    graph = build_graph(g)
    with pytest.raises(UnsupportedError, match=f"reads tensor value {a}, which is not an input"):
        symint_sources(graph, resolve_ops(graph))


def read_as_symint(dtype: str, out: str = "symint") -> tuple[Graph, int]:
    g = GraphWriter()
    x = g.tensor((4,), dtype)
    result = g.symint(0) if out == "symint" else g.int(0)
    g.op("et_vk.select_as_symint.default", x, g.int(0), g.int(0), result)
    g.inputs(x)
    g.outputs(x)
    return build_graph(g), x


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "bool"])
def test_only_integers_are_read_as_symints(dtype: str) -> None:
    graph, x = read_as_symint(dtype)
    message = rf"op 0 \(et_vk.select_as_symint.default\).* tensor value {x}, which is {dtype};"
    with pytest.raises(ValueKindError, match=message):
        symint_sources(graph, resolve_ops(graph))


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
def test_every_type_of_integers_is_read_as_a_symint(dtype: str) -> None:
    graph, x = read_as_symint(dtype)
    (source,) = symint_sources(graph, resolve_ops(graph))
    assert source.input == x


def test_a_read_that_yields_no_symint_reads_nothing() -> None:
    graph, _ = read_as_symint("float32", "int")
    assert symint_sources(graph, resolve_ops(graph)) == ()


def test_bounds_are_checked_and_the_tightest_is_kept() -> None:
    def bounds_of(args: Args) -> list[SymIntBound]:
        high = args.integer("high")
        return args.bound("pos", 0, high, f"the cache holds {high}")

    with temporary_op(
        "test.cache.default",
        "self: tensor, pos: live, high: int -> tensor",
        shape=lambda args: [args.tensor("self").dims],
        lower=lambda args: [],
        bounds=bounds_of,
    ):
        g = GraphWriter()
        x, pos = g.tensor((4,)), g.symint(0)
        value = x
        for high in (9, 5, 7):
            value = g.op("test.cache.default", value, pos, g.int(high), g.tensor((4,)))
        g.inputs(x)
        g.outputs(value)
        planner, live = lowered(g)
        bounds = planner.symint_bounds()
        assert SymIntBound(pos, 0, 5, "op 1 (test.cache.default): the cache holds 5") in bounds
        assert SymIntBound(pos, 0, 7, "op 2 (test.cache.default): the cache holds 7") not in bounds
        live.set_symint(pos, 5)
        check_bounds(bounds, live)
        live.set_symint(pos, 6)
        with pytest.raises(ResizeError, match=r"op 1 .*: the cache holds 5: 6 is not in 0 to 5"):
            check_bounds(bounds, live)
        fired = planner.hooks_fired
        planner.propagate_resize()
        assert planner.hooks_fired == fired, "a live argument lowers nothing anew"


def test_a_call_that_was_lowered_in_a_failed_transaction_is_not_settled() -> None:
    """Its SymInt is back at a value for which it has no records: the next run must not skip it."""
    g = GraphWriter()
    x, n = g.tensor((12,)), g.symint(5)
    out = g.op("aten.view_copy.default", x, g.value_list([n, g.int(-1)]), g.tensor((12, 12)))
    g.inputs(x, n)
    g.outputs(g.op(RELU, out, g.tensor((12, 12))))
    planner, live = lowered(g)
    with suppress(KeyError), planner.transaction():
        live.set_symint(n, 4)
        planner.propagate_resize()
        raise KeyError
    planner.retarget(Target(storage_buffers=9))
    live.set_symint(n, 5)
    with pytest.raises(GraphError, match=r"aten\.view_copy"), planner.transaction():
        planner.propagate_resize()
    live.set_symint(n, 6)
    with planner.transaction():
        planner.propagate_resize()
    assert live.cur_dims(out) == (6, 2)
    count = planner.lowerings
    planner.propagate_resize()
    assert planner.lowerings == count, "it is settled now"
    planner.retarget(Target(storage_buffers=10))
    assert planner.lowerings == count + 2, "both calls"
