"""The graph of a delegate: every kind of value, calls, memory groups, constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import build_graph, load, wait
from support.write.pte_writer import GraphWriter, Node, Scalar, write_pte
from webpte.engine.format.vulkan import (
    BoolListValue,
    BoolValue,
    DoubleListValue,
    DoubleValue,
    IntListValue,
    IntValue,
    NullValue,
    StringValue,
    SymIntValue,
    ValueListValue,
)
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.graph.graph import Tensor
from webpte.errors import ConstantError, FormatError, GraphError, ValueKindError

KINDS: list[tuple[str, Any, str]] = [
    ("null", NullValue(), "null"),
    ("int", IntValue(-(2**40)), "an int"),
    ("double", DoubleValue(0.1), "a double"),
    ("bool", BoolValue(True), "a bool"),
    ("string", StringValue("tanh"), "a string"),
    ("int_list", IntListValue((1, -1, 2**40)), "a list of ints"),
    ("double_list", DoubleListValue((0.5, -1.0)), "a list of doubles"),
    ("bool_list", BoolListValue((True, False)), "a list of bools"),
    ("value_list", ValueListValue((0, 1)), "a list of values"),
    ("symint", SymIntValue(-5), "a SymInt"),
]


def write_all_kinds(g: GraphWriter) -> None:
    g.null()
    g.int(-(2**40))
    g.double(0.1)
    g.bool_(True)
    g.string("tanh")
    g.int_list([1, -1, 2**40])
    g.double_list([0.5, -1.0])
    g.bool_list([True, False])
    g.value_list([0, 1])
    g.symint(-5)
    g.tensor((2, 3), "int8", mem_obj_id=4)


@pytest.mark.parametrize("index", range(len(KINDS)), ids=[kind[0] for kind in KINDS])
def test_every_kind_of_value(index: int) -> None:
    g = GraphWriter()
    write_all_kinds(g)
    graph = build_graph(g)
    _, value, words = KINDS[index]
    assert graph.value(index) == value
    assert graph.kind(index) == words
    with pytest.raises(ValueKindError, match=f"value {index} is {words}, not a tensor"):
        graph.tensor(index)
    if words != "a SymInt":
        with pytest.raises(ValueKindError, match=f"value {index} is {words}, not a SymInt"):
            graph.symint(index)
    if words != "a list of values":
        with pytest.raises(ValueKindError, match=f"value {index} is {words}, not a list of values"):
            graph.value_list(index)


def test_a_tensor() -> None:
    g = GraphWriter()
    write_all_kinds(g)
    graph = build_graph(g)
    tensor = graph.tensor(10)
    assert (tensor.dtype.name, tensor.dims, tensor.constant) == ("int8", (2, 3), None)
    assert tensor.mem_obj_id == 4
    assert (tensor.file_bytes, tensor.storage_bytes) == (6, 6)
    assert [t.id for t in graph.tensors()] == [10]
    with pytest.raises(ValueKindError, match="value 10 is a tensor, not a SymInt"):
        graph.symint(10)


@pytest.mark.parametrize(
    ("dtype", "file_bytes", "storage_bytes"),
    [("int64", 48, 24), ("float16", 12, 24), ("float64", 48, 24), ("bool", 6, 6)],
)
def test_files_and_gpus_hold_different_bytes(
    dtype: str, file_bytes: int, storage_bytes: int
) -> None:
    g = GraphWriter()
    value = g.tensor((2, 3), dtype)
    tensor = build_graph(g).tensor(value)
    assert (tensor.file_bytes, tensor.storage_bytes) == (file_bytes, storage_bytes)


@pytest.mark.parametrize("value_id", [-1, 11, 2**31])
def test_an_id_out_of_range(value_id: int) -> None:
    g = GraphWriter()
    write_all_kinds(g)
    with pytest.raises(GraphError, match=f"value {value_id} does not exist; the graph has 11"):
        build_graph(g).value(value_id)


def test_calls_and_counts() -> None:
    g = GraphWriter()
    x, y, z = g.tensor((2,)), g.tensor((2,)), g.tensor((2,))
    one = g.int(1)
    g.op("aten.relu.default", x, y)
    g.op("aten.add.Tensor", x, y, one, z)
    g.op("aten.relu.default", z, z)
    g.inputs(x)
    g.outputs(z, y)
    graph = build_graph(g)
    assert [str(call) for call in graph.calls] == [
        "op 0 (aten.relu.default)",
        "op 1 (aten.add.Tensor)",
        "op 2 (aten.relu.default)",
    ]
    assert graph.calls[1].args == (x, y, one, z)
    assert graph.op_counts() == {"aten.relu.default": 2, "aten.add.Tensor": 1}
    assert list(graph.op_counts()) == ["aten.relu.default", "aten.add.Tensor"]
    assert (graph.inputs, graph.outputs) == ((x,), (z, y))


def test_expand_follows_lists_with_their_members() -> None:
    g = GraphWriter()
    a, b, n = g.tensor((2,)), g.tensor((2,)), g.symint(3)
    pair = g.value_list([b, n])
    graph = build_graph(g)
    assert list(graph.expand((a, pair, a))) == [a, pair, b, n, a]


@pytest.mark.parametrize("kind", KINDS[:-1], ids=[kind[0] for kind in KINDS[:-1]])
@pytest.mark.parametrize("end", ["input", "output"])
@pytest.mark.parametrize("device", ["numpy", "recording"])
def test_inputs_and_outputs_are_tensors_and_symints(
    device: str, end: str, kind: tuple[str, Any, str]
) -> None:
    """The exporter writes the members of a list one by one; nothing else makes sense there."""
    g = GraphWriter()
    write_all_kinds(g)
    x, other = g.tensor((2,)), KINDS.index(kind)
    y = g.op("aten.relu.default", x, g.tensor((2,)))
    g.inputs(x, *([other] if end == "input" else []))
    g.outputs(y, *([other] if end == "output" else []))
    told = rf"^bytes: {end} value {other} is {kind[2]}; .* SymInts"
    with pytest.raises(ValueKindError, match=told):
        wait(load(g, device=SimulatedDevice() if device == "recording" else device))


def test_an_absent_memory_id_is_number_0() -> None:
    """The schema's default is 0; "none" is written out as -1."""

    def drop(root: Node) -> None:
        values: Any = root.slots[2]
        del values[0].slots[1].slots[3]
        values[0].slots[1].slots[2] = Scalar("i32", -1)

    g = GraphWriter(edit=drop)
    value = g.tensor((2,))
    assert build_graph(g).tensor(value).mem_obj_id == 0


# Constants

DATA = np.arange(6, dtype=np.float32)


def bytes_of(tensor: Tensor) -> bytes:
    assert tensor.constant is not None
    return wait(tensor.constant.region.read(0, tensor.file_bytes))


@pytest.mark.parametrize("inline", [False, True])
def test_a_constant_finds_its_bytes(inline: bool) -> None:
    g = GraphWriter()
    g.tensor((1,), constant=np.array([99], np.float32))
    value = g.tensor((2, 3), constant=DATA, key="weights")
    tensor = build_graph(g, inline_constants=inline).tensor(value)
    assert bytes_of(tensor) == DATA.tobytes()
    assert tensor.constant is not None
    assert tensor.constant.key == (None if inline else "weights")


def test_equal_bytes_under_one_key_are_two_values() -> None:
    g = GraphWriter()
    a, b = g.tensor((6,), constant=DATA, key="k"), g.tensor((6,), constant=DATA, key="k")
    graph = build_graph(g)
    assert graph.tensor(a).constant == graph.tensor(b).constant
    assert graph.tensor(a) != graph.tensor(b)


def test_a_constant_may_have_more_bytes_than_needed() -> None:
    g = GraphWriter()
    value = g.tensor((2,), constant=DATA)
    assert bytes_of(build_graph(g).tensor(value)) == DATA[:2].tobytes()


def test_an_empty_constant() -> None:
    g = GraphWriter()
    value = g.tensor((0, 3), constant=b"")
    g.tensor((2, 3), constant=DATA)
    assert bytes_of(build_graph(g).tensor(value)) == b""


def refuse(g: GraphWriter, message: str, **options: Any) -> None:
    with pytest.raises(ConstantError, match=message):
        build_graph(g, **options)


def test_a_missing_table() -> None:
    g = GraphWriter(constants_table=False)
    value = g.tensor((2, 3), constant=DATA)
    refuse(g, rf"constant 0 of tensor value {value} \[2, 3\]: the graph has no table of constants")


def test_an_id_beyond_the_table() -> None:
    g = GraphWriter()
    g.tensor((2, 3), constant=DATA)
    value = g.tensor((2, 3), constant_id=7)
    refuse(g, rf"constant 7 of tensor value {value} .* the table of constants has 1 entries")


def test_an_unknown_key() -> None:
    g = GraphWriter()
    g.tensor((2, 3), constant=DATA, key="abc")
    refuse(g, r"constant 0 .* no named data under the key abc; .*\.ptd", named_data={"abc": None})


def test_too_few_bytes_under_a_key() -> None:
    g = GraphWriter()
    g.tensor((2, 3), constant=DATA, key="abc")
    refuse(g, "24 bytes are needed, 23 are in the file", named_data={"abc": DATA.tobytes()[:23]})


def test_too_few_bytes_inline() -> None:
    g = GraphWriter()
    g.tensor((2, 3), constant_id=g.constant(DATA, length=20))
    refuse(g, "24 bytes are needed, 20 are in the file", inline_constants=True)


def test_a_constant_beyond_the_blob() -> None:
    g = GraphWriter()
    g.tensor((2, 3), constant_id=g.constant(DATA, length=4000))
    with pytest.raises(FormatError, match="bytes 0 to 4000 are not in the delegate's"):
        build_graph(g, inline_constants=True)


def test_an_absent_constant_id_is_number_0() -> None:
    """A tensor that loses the field becomes a constant, and must not pass for an empty one."""

    def drop(root: Node) -> None:
        values: Any = root.slots[2]
        del values[1].slots[1].slots[2]

    g = GraphWriter(edit=drop)
    g.tensor((2, 3), constant=DATA)
    value = g.tensor((6,))
    graph = build_graph(g)
    assert bytes_of(graph.tensor(value)) == DATA.tobytes()


def test_files_without_segments() -> None:
    g = GraphWriter()
    value = g.tensor((2, 3), constant=DATA)
    from support.graphs.graphs import read_graph

    graph = read_graph(write_pte(g, extended_header=False))
    assert bytes_of(graph.tensor(value)) == DATA.tobytes()


def test_an_input_that_is_listed_twice() -> None:
    g = GraphWriter()
    x, out = g.tensor((2,)), g.tensor((2,))
    g.op("aten.relu.default", x, out)
    g.inputs(x, x)
    g.outputs(out)
    with pytest.raises(GraphError, match="input value 0 is listed 2 times"):
        build_graph(g)
