"""Arguments of XNNPACK delegates: inputs, outputs, their layouts, and the method around them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import load, run_once, wait
from support.graphs.xnnpack_graphs import computed, graph_of, names_of, unary
from support.write.flat_writer import Node, Scalar
from support.write.graph_writer import GraphWriter
from support.write.method_writer import MethodWriter
from support.write.pte_writer import write_pte
from support.write.xnnpack_writer import ABSENT, Argument, XnnpackWriter, floats, per_tensor
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import GraphError, UnsupportedOpError, WebpteError

X = floats(2, 3, 4, 5)
LAST = (0, 2, 3, 1)  # the order of the dims in memory, channels last


@pytest.mark.parametrize("first", [None, LAST])
@pytest.mark.parametrize("last", [None, LAST])
def test_arguments_in_any_layout(first: Any, last: Any) -> None:
    """The method's tensors are [2, 3, 4, 5]; XNNPACK sees their memory."""
    g = XnnpackWriter()
    seen = X.shape if first is None else tuple(X.shape[axis] for axis in first)
    x = g.value(seen, argument=0, dim_order=first)
    out = tuple(X.shape[axis] for axis in last) if last is not None else X.shape
    y = g.value(out, argument=1, output=True, dim_order=last)
    made = g.value(seen)
    g.node("Negate", x, made)
    if first == last:
        g.node("Abs", made, y)
    else:
        perm = LAST if last is not None else (0, 3, 1, 2)
        g.node("StaticTranspose", made, y, num_dims=4, perm=perm)
    want = np.abs(X) if first == last else -X
    np.testing.assert_array_equal(computed(g, X), want)
    assert "aten.permute_copy.default" not in names_of(g)


def test_an_output_that_is_read_inside() -> None:
    g = XnnpackWriter()
    x = g.value((4,), argument=0)
    y, z = (g.value((4,), argument=place, output=True) for place in (1, 2))
    g.node("Negate", x, y)
    g.node("Abs", y, z)
    given = floats(4)
    first, second = computed(g, given)
    np.testing.assert_array_equal(first, -given)
    np.testing.assert_array_equal(second, np.abs(given))


def test_outputs_that_are_the_same_numbers_or_an_input() -> None:
    """Copies that only reorder: each output of the method has separate memory."""
    g = XnnpackWriter()
    x = g.value((2, 3), argument=0)
    turned, back, kept = (
        g.value(dims, argument=place, output=True)
        for place, dims in ((1, (3, 2)), (2, (2, 3)), (3, (3, 2)))
    )
    g.node("StaticTranspose", x, turned, num_dims=2, perm=(1, 0))
    g.node("StaticTranspose", turned, back, num_dims=2, perm=(1, 0))
    g.node("StaticTranspose", back, kept, num_dims=2, perm=(1, 0))
    graph = graph_of(g)
    assert len({*graph.outputs, *graph.inputs}) == 4
    given = floats(2, 3)
    for found, want in zip(computed(g, given), (given.T, given, given.T), strict=True):
        np.testing.assert_array_equal(found, want)


def test_an_output_that_is_a_constant() -> None:
    """A transposition of a constant is the constant itself, in another order."""
    g = XnnpackWriter()
    w = floats(2, 3)
    made = g.value((3, 2), argument=0, output=True)
    g.node("StaticTranspose", g.value((2, 3), constant=w), made, num_dims=2, perm=(1, 0))
    np.testing.assert_array_equal(computed(g), w.T)


def test_arguments_that_the_graph_does_not_use() -> None:
    """Places are counted among all arguments of the call, used or not."""
    g = XnnpackWriter()
    x, y = g.value((4,), argument=1), g.value((4,), argument=4, output=True)
    second = g.value((4,), argument=3)
    g.node("Subtract", x, second, y)
    other = Argument((7,), "float32", False, None, False)
    method = g.method(unused={0: other, 2: other})
    a, b, nothing = floats(4), floats(4, seed=1), np.zeros(7, np.float32)
    (found,) = wait(run_once(method, nothing, a, nothing, b))
    np.testing.assert_array_equal(np.asarray(found), a - b)


def test_outputs_are_in_the_order_of_their_places() -> None:
    g = XnnpackWriter()
    late, early = (g.value((4,), argument=place, output=True) for place in (2, 1))
    x = g.value((4,), argument=0)
    g.node("Negate", x, late)
    g.node("Abs", x, early)
    given = floats(4)
    first, second = computed(g, given)
    np.testing.assert_array_equal(first, np.abs(given))
    np.testing.assert_array_equal(second, -given)


def test_integers_that_the_method_has_as_int64() -> None:
    g = XnnpackWriter()
    x = g.value((4,), "int32", argument=0)
    g.node("Copy", x, g.value((4,), "int32", argument=1, output=True, host="int64"))
    given = np.array([-1, 0, 7, 1 << 30], np.int32)
    found = computed(g, given)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, given)


def test_a_delegate_that_is_called_twice() -> None:
    g = unary("Negate", (2, 3))
    m = MethodWriter()
    a, b, c = (m.tensor((2, 3)) for _ in range(3))
    m.inputs(a)
    m.delegate(g.blob(), [a, b], delegate_id="XnnpackBackend")
    m.call_again(0, [b, c])
    m.outputs(c)
    given = floats(2, 3)
    (found,) = wait(run_once(m, given))
    np.testing.assert_array_equal(np.asarray(found), given)


def test_calls_of_a_delegate_in_different_layouts() -> None:
    """The sizes are the same, the memory is not: the graph is lowered for one of the two."""
    g = unary("Negate", (2, 3))
    m = MethodWriter()
    a, b, c = m.tensor((2, 3)), m.tensor((2, 3)), m.tensor((3, 2), dim_order=(1, 0))
    m.inputs(a)
    m.delegate(g.blob(), [a, b], delegate_id="XnnpackBackend")
    m.call_again(0, [b, c])
    m.outputs(c)
    with pytest.raises(GraphError, match="delegate 0 is called with tensors of different layouts"):
        wait(run_once(m, floats(2, 3)))


def test_a_delegate_that_no_instruction_calls() -> None:
    m = unary("Negate", (2, 3)).method()
    m.instructions.clear()
    m.outputs(m.input(0))
    m.output_values.pop(0)
    given = floats(2, 3)
    (found,) = wait(run_once(m, given))
    np.testing.assert_array_equal(np.asarray(found), given)


def with_values(*flags: tuple[int, int, int], nodes: bool = True) -> XnnpackWriter:
    """Negate x into y, where flags, place and constant of the values are these."""

    def edit(root: Node) -> None:
        values: Any = root.slots[2]
        for value, (flag, place, constant) in zip(values, flags, strict=False):
            tensor = value.slots[1]
            tensor.slots[5] = Scalar("u32", flag)
            tensor.slots[4] = Scalar("u32", place)
            tensor.slots[3] = Scalar("u32", constant)

    g = XnnpackWriter(edit=edit)
    x, y = g.value((4,), argument=0), g.value((4,), argument=1, output=True)
    g.constant(floats(4))
    if nodes:
        g.node("Negate", x, y)
    return g


@pytest.mark.parametrize(
    ("g", "message"),
    [
        (with_values((1, 0, 0), (2, 0, 0)), "two values are the same argument of the delegate"),
        (with_values((3, 0, 0), (2, 1, 0)), "value 0: an input that is an output as well"),
        (with_values((1, 0, 1), (2, 1, 0)), "value 0: a constant that is an argument"),
        (with_values((1, ABSENT, 0), (2, 1, 0)), "value 0 is an input or an output without a"),
        (with_values((1, 7, 0), (2, 1, 0)), "argument 7 of the delegate is not a tensor"),
        (with_values((0, 0, 0), (2, 1, 0)), "value 0 is needed, but is no argument"),
        (with_values((0, 0, 1), (0, 1, 1)), "value 1 is computed twice"),
        (with_values(nodes=False), "value 1 is needed, but is no argument"),
    ],
)
def test_arguments_that_are_refused(g: XnnpackWriter, message: str) -> None:
    with pytest.raises(GraphError) as raised:
        graph_of(g)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("host", "order", "message"),
    [
        ((3, 2), None, "argument 0 of the delegate is [3, 2] in memory, its value [2, 3]"),
        ((2, 3), (1, 0), "argument 0 of the delegate is [3, 2] in memory, its value [2, 3]"),
        ((6,), None, "argument 0 of the delegate has 1 dims, its value 2"),
    ],
)
def test_a_method_with_other_tensors(host: Any, order: Any, message: str) -> None:
    g = XnnpackWriter()
    x = g.value((2, 3), argument=0, host_dims=host, dim_order=order)
    g.node("Negate", x, g.value((2, 3), argument=1, output=True))
    with pytest.raises(GraphError) as raised:
        graph_of(g)
    assert message in str(raised.value)


def test_an_argument_that_is_a_number() -> None:
    g = unary("Negate", (2, 3))
    m = MethodWriter()
    x, y = m.value(3), m.tensor((2, 3))
    m.inputs(x)
    m.delegate(g.blob(), [x, y], delegate_id="XnnpackBackend")
    m.outputs(y)
    with pytest.raises(GraphError, match="argument 0 of the delegate is not a tensor"):
        wait(run_once(m, 3))


@pytest.mark.parametrize("type", ["qcint4", "qdint8"])
def test_types_that_no_tensor_has(type: str) -> None:
    with pytest.raises(GraphError):
        graph_of(unary("Negate", (2, 3), types=(type, type)))


def test_nodes_without_a_kernel_are_named_when_they_are_needed() -> None:
    """Only a run of the graph needs the operator, for outputs of any type."""
    g = XnnpackWriter()
    x, y = g.value((2, 3, 3), argument=0), g.value((2, 3, 3), argument=1, output=True)
    bytes_of_x = g.value((2, 3, 3), "qint8", quant=per_tensor(0.1))
    g.node("Negate", x, y)
    g.node("Convert", x, bytes_of_x)
    g.node("BatchMatrixMultiply", bytes_of_x, bytes_of_x, g.value((2, 3, 3), "bf16"))

    async def run() -> None:
        async with await load(g.method()) as program:
            await program.forward(floats(2, 3, 3))

    with pytest.raises(WebpteError):
        wait(run())
    inspected = graph_of(g)
    assert [call.name for call in inspected.calls][-1] == (
        "xnnpack.BatchMatrixMultiply(of 8 bits beside other types)"
    )


def test_several_delegates_of_a_method() -> None:
    m = MethodWriter()
    x, y, z = (m.tensor((2, 3)) for _ in range(3))
    m.inputs(x)
    m.delegate(unary("Negate", (2, 3)).blob(), [x, y], delegate_id="XnnpackBackend")
    m.delegate(unary("Square", (2, 3)).blob(), [y, z], delegate_id="XnnpackBackend")
    m.outputs(z, y)
    given = floats(2, 3)
    found = wait(run_once(m, given))
    np.testing.assert_allclose(np.asarray(found[0]), given * given, rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(found[1]), -given)
    assert write_pte(m)[4:8] == b"ET12"


def test_unknown_operators_are_listed_together() -> None:
    g = XnnpackWriter()
    x = g.value((2, 3), argument=0)
    g.node("Convert", x, g.value((2, 3), "int32", argument=1, output=True))
    with pytest.raises(UnsupportedOpError, match=r"xnnpack\.Convert\(of floats to integers\) ×1"):
        computed(g, floats(2, 3))


def test_delegates_of_both_kinds_are_a_single_graph() -> None:
    """Exporters give to Vulkan the calls that XNNPACK's partitioner leaves, or the other way."""
    m = MethodWriter()
    x, y, z, out = (m.tensor((2, 3)) for _ in range(4))
    m.inputs(x)
    m.delegate(unary("Negate", (2, 3)).blob(), [x, y], delegate_id="XnnpackBackend")
    vulkan = GraphWriter()
    source = vulkan.tensor((2, 3))
    vulkan.inputs(source)
    vulkan.outputs(vulkan.op("aten.sin.default", source, vulkan.tensor((2, 3))))
    m.delegate(vulkan, [y, z])
    m.delegate(unary("Square", (2, 3)).blob(), [z, out], delegate_id="XnnpackBackend")
    m.outputs(out)
    given = floats(2, 3)

    async def run() -> None:
        async with await webpte.load(write_pte(m), device=SimulatedDevice()) as program:
            (found,) = await program.forward(given)
            np.testing.assert_allclose(found, np.sin(-given) ** 2, rtol=1e-6)
            assert program.stats.submissions == 1

    wait(run())
