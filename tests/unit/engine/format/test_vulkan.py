"""The delegate blob: header, every kind of value, and blobs that must be refused."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.harness.reading import read_delegates, read_graph, read_pte, run
from support.write.pte_writer import GraphWriter, Node, Scalar, Vector, write_pte
from webpte.engine.files.source import BytesSource, Region
from webpte.engine.format.vulkan import (
    BoolListValue,
    BoolValue,
    DataType,
    DelegateHeader,
    DoubleListValue,
    DoubleValue,
    IntListValue,
    IntValue,
    NullValue,
    OperatorCall,
    Span,
    StringValue,
    SymIntValue,
    TensorValue,
    ValueListValue,
    VkBytes,
    VkGraph,
    parse_graph,
    parse_header,
    read_delegate,
)
from webpte.errors import FormatError

DATA = Path(__file__).parents[3] / "data" / "format"


def graph_of(g: GraphWriter) -> VkGraph:
    blob = g.blob()
    return run(read_delegate(Region(BytesSource(blob), 0, len(blob)))).graph


def tensor_of(graph: VkGraph, value_id: int) -> TensorValue:
    value = graph.values[value_id]
    assert isinstance(value, TensorValue)
    return value


# --- values ------------------------------------------------------------------------------------


def test_every_kind_of_value() -> None:
    g = GraphWriter()
    ids = [
        g.null(),
        g.int(-(1 << 63)),
        g.double(-math.inf),
        g.bool_(True),
        g.tensor((2, 1, 3), "int8"),
        g.int_list([1, -1, 1 << 40]),
        g.double_list([0.5, 1e300]),
        g.bool_list([True, False]),
        g.value_list([1, 10]),
        g.string("größe"),
        g.symint(-7),
    ]
    assert ids == list(range(11))
    assert graph_of(g).values == (
        NullValue(),
        IntValue(-(1 << 63)),
        DoubleValue(-math.inf),
        BoolValue(True),
        TensorValue(DataType.INT8, (2, 1, 3), None, None, 255, 255, DataType.INT8),
        IntListValue((1, -1, 1 << 40)),
        DoubleListValue((0.5, 1e300)),
        BoolListValue((True, False)),
        ValueListValue((1, 10)),
        StringValue("größe"),
        SymIntValue(-7),
    )


@pytest.mark.parametrize(
    ("name", "datatype", "itemsize"),
    [
        ("bool", DataType.BOOL, 1),
        ("uint8", DataType.UINT8, 1),
        ("int8", DataType.INT8, 1),
        ("int32", DataType.INT32, 4),
        ("float16", DataType.FLOAT16, 2),
        ("float32", DataType.FLOAT32, 4),
        ("float64", DataType.FLOAT64, 8),
        ("int64", DataType.INT64, 8),
    ],
)
def test_every_datatype(name: str, datatype: DataType, itemsize: int) -> None:
    g = GraphWriter()
    value_id = g.tensor((3, 5), name)
    tensor = tensor_of(graph_of(g), value_id)
    assert tensor.datatype is datatype
    assert tensor.nbytes == 15 * itemsize


def test_an_absent_id_means_zero_and_a_negative_one_none() -> None:
    g = GraphWriter()
    zero = g.tensor((1,), constant_id=0, mem_obj_id=0)
    none = g.tensor((1,), constant_id=-1, mem_obj_id=-1)
    negative = g.tensor((1,), constant_id=-2, mem_obj_id=-9)
    graph = graph_of(g)
    assert (tensor_of(graph, zero).constant_id, tensor_of(graph, zero).mem_obj_id) == (0, 0)
    for value_id in (none, negative):
        tensor = tensor_of(graph, value_id)
        assert (tensor.constant_id, tensor.mem_obj_id) == (None, None)


def test_an_empty_table_is_a_rank_zero_bool_constant_of_memory_object_zero() -> None:
    def strip(root: Node) -> None:
        root.slots[2] = [Node({0: Scalar("u8", 5), 1: Node({})})]

    g = GraphWriter(edit=strip)
    g.null()
    unset = DataType.UNSET
    assert graph_of(g).values == (TensorValue(DataType.BOOL, (), 0, 0, 255, 255, unset),)


def test_chain_inputs_outputs_and_constants() -> None:
    g = GraphWriter()
    x, y = g.tensor((2, 3)), g.tensor((2, 3))
    w = g.tensor((3,), constant=np.ones(3, np.float32), key="w")
    empty = g.tensor((0,), constant=b"")
    g.op("aten.add.Tensor", x, g.prepack(w), g.int(1), y)
    g.inputs(x)
    g.outputs(y, x)
    graph = graph_of(g)
    assert graph.version == "0"
    assert graph.chain == (
        OperatorCall(0, "et_vk.prepack.default", (w, 4)),
        OperatorCall(1, "aten.add.Tensor", (x, 4, 5, y)),
    )
    assert (graph.input_ids, graph.output_ids) == ((x,), (y, x))
    assert graph.constants == (VkBytes(None, 12, "w"), VkBytes(0, 0, None))
    assert tensor_of(graph, empty).constant_id == 1


def test_a_constant_id_out_of_range_or_no_table_is_left_to_the_graph_layer() -> None:
    g = GraphWriter(constants_table=False)
    value_id = g.tensor((1,), constant=np.ones(1, np.float32))
    graph = graph_of(g)
    assert graph.constants == ()
    assert tensor_of(graph, value_id).constant_id == 0
    g = GraphWriter()
    value_id = g.tensor((1,), constant_id=99)
    assert tensor_of(graph_of(g), value_id).constant_id == 99


def test_the_writer_rebuilds_a_real_graph() -> None:
    """Calls of the writer give the records of the exporter's file."""
    real = (DATA / "log10.pte").read_bytes()
    span = next(iter(read_pte(real).named_data.values()))
    g = GraphWriter()
    packed: dict[str, Any] = {"storage_type": 1, "memory_layout": 0}
    w = g.tensor((), constant=real[span.offset : span.end])
    p = g.tensor((), **packed)
    x = g.tensor((4, 9), mem_obj_id=1, **packed)
    a = g.tensor((4, 9), mem_obj_id=0, **packed)
    one = g.int(1)
    b = g.tensor((4, 9), mem_obj_id=1, **packed)
    y = g.tensor((4, 9), mem_obj_id=0, **packed)
    g.op("et_vk.prepack.default", w, p)
    g.op("aten.abs.default", x, a)
    g.op("aten.add.Tensor", a, p, one, b)
    g.op("aten.log10.default", b, y)
    g.inputs(x)
    g.outputs(y)
    written = write_pte(g)
    assert read_graph(written) == read_graph(real)
    ours, theirs = read_pte(written), read_pte(real)
    assert list(ours.named_data) == list(theirs.named_data)
    assert [s.size for s in ours.segments][2:] == [s.size for s in theirs.segments][2:]
    assert ours.method("forward").chains == theirs.method("forward").chains
    assert ours.constant_segment is not None
    assert theirs.constant_segment is not None
    assert ours.constant_segment.offsets == theirs.constant_segment.offsets


def test_a_real_llama() -> None:
    data = (DATA / "llama_tiny_q4.head").read_bytes().ljust(159616, b"\0")
    (delegate,) = read_delegates(data, read_pte(data))
    graph = delegate.graph
    names = {call.name for call in graph.chain}
    assert {"sym_size.int", "sdpa_with_kv_cache.default", "et_vk.prepack.default"} <= names
    assert any(isinstance(value, SymIntValue) for value in graph.values)
    for call in graph.chain:
        if call.name == "et_vk.prepack.default":
            source, output = (tensor_of(graph, arg) for arg in call.args)
            assert source.constant_id is not None
            assert output.mem_obj_id is None


# --- header ------------------------------------------------------------------------------------


def header(
    magic: bytes = b"VH00",
    length: int = 30,
    start: int = 32,
    size: int = 100,
    constants: int = 144,
    constants_size: int = 0,
) -> bytes:
    return struct.pack("<4s4sHIIIQ", b"", magic, length, start, size, constants, constants_size)


def test_header_fields() -> None:
    assert parse_header(header(), 144, 0) == DelegateHeader(Span(32, 100), Span(144, 0))
    # A size of zero means: all that is left.
    assert parse_header(header(), 150, 0) == DelegateHeader(Span(32, 100), Span(144, 6))
    assert parse_header(header(constants_size=4), 150, 0).constants == Span(144, 4)


@pytest.mark.parametrize(
    ("head", "message", "offset"),
    [
        (header()[:29], "a delegate of 150 bytes has no room for its header", 0),
        (header(magic=b"VH01"), "not a Vulkan delegate: magic b'VH01', not b'VH00'", 4),
        (header(length=29), "a delegate header of 29 bytes lacks its fields", 8),
        (header(size=0), "the delegate's graph at 32 to 32 is not inside", 10),
        (header(start=29), "the delegate's graph at 29 to 129 is not inside", 10),
        (header(size=119), "the delegate's graph at 32 to 151 is not inside", 10),
        (header(size=0xFFFFFFFF), "the delegate's graph at 32 to 4294967327 is not inside", 10),
        (header(constants=131), "the delegate's constants at 131 to 150 are not between", 18),
        (header(constants=151), "the delegate's constants at 151 to 151 are not between", 18),
        (header(constants_size=7), "the delegate's constants at 144 to 151 are not between", 18),
        (header(constants_size=(1 << 64) - 1), "the delegate's constants at 144 to 1844", 18),
    ],
)
def test_header_errors(head: bytes, message: str, offset: int) -> None:
    with pytest.raises(FormatError) as raised:
        parse_header(head, 150, 7000)
    assert str(raised.value).startswith(message)
    assert raised.value.offset == 7000 + offset


# --- errors ------------------------------------------------------------------------------------


def every_kind(edit: Callable[[Node], None]) -> GraphWriter:
    g = GraphWriter(edit=edit)
    x = g.tensor((2, 3))
    g.tensor((3,), constant=np.ones(3, np.float32))
    g.value_list([x, x])
    g.value_list([x])
    g.op("aten.abs.default", x, x)
    g.inputs(x)
    g.outputs(x)
    return g


def value_field(index: int, slot: int, field: Any) -> Callable[[Node], None]:
    def edit(root: Node) -> None:
        values: Any = root.slots[2]
        values[index].slots[1].slots[slot] = field

    return edit


def graph_field(slot: int, field: Any) -> Callable[[Node], None]:
    def edit(root: Node) -> None:
        root.slots[slot] = field

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            graph_field(1, [Node({1: "op", 2: Vector("i32", [0, 4])})]),
            "VkGraph.chain[0].args[1]: value 4 does not exist, there are 4",
        ),
        (
            graph_field(1, [Node({1: "op", 2: Vector("i32", [-1])})]),
            "VkGraph.chain[0].args[0]: value -1 does not exist, there are 4",
        ),
        (graph_field(3, Vector("u32", [0, 4])), "VkGraph.input_ids[1]: value 4 does not exist"),
        (
            graph_field(4, Vector("u32", [(1 << 32) - 1])),
            "VkGraph.output_ids[0]: value 4294967295 does not exist",
        ),
        (value_field(2, 0, Vector("i32", [0, 9])), "VkGraph.values[2].items[1]: value 9 does not"),
        (value_field(3, 0, Vector("i32", [2])), "VkGraph.values[3].items[0]: value 2 is a list"),
        (value_field(3, 0, Vector("i32", [3])), "VkGraph.values[3].items[0]: value 3 is a list"),
        (value_field(0, 0, Scalar("i8", 8)), "VkGraph.values[0].datatype: unknown DataType 8"),
        (value_field(0, 0, Scalar("i8", 127)), "VkGraph.values[0].datatype: a tensor needs a type"),
        (value_field(0, 6, Scalar("i8", 9)), "VkGraph.values[0].staging_datatype: unknown Data"),
        (value_field(0, 1, Vector("u32", [1] * 65)), "VkGraph.values[0].dims: rank 65 is over 64"),
        (
            value_field(0, 1, Vector("u32", [(1 << 32) - 1] * 64)),
            "VkGraph.values[0].dims: the tensor would have 2**53 bytes or more",
        ),
        (
            graph_field(5, [Node({0: Scalar("u64", (1 << 64) - 1), 1: Scalar("u64", 4)})]),
            "VkGraph.constants[0].named_key: is missing, and there is no offset either",
        ),
        (
            graph_field(5, [Node({0: Scalar("u64", 4), 1: Scalar("u64", 4)})]),
            "VkGraph.constants[0].offset: bytes 4 to 8 are not in the delegate's 0 bytes",
        ),
    ],
)
def test_graph_errors(edit: Callable[[Node], None], message: str) -> None:
    with pytest.raises(FormatError) as raised:
        graph_of(every_kind(edit))
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Node({0: Scalar("u8", 12), 1: Node({})}), "value_type: unknown kind of value 12"),
        (Node({1: Node({})}), "value_type: unknown kind of value 0"),
        (Node({0: Scalar("u8", 1)}), "value: is missing"),
    ],
)
def test_unions_without_a_meaning(value: Node, message: str) -> None:
    g = GraphWriter(edit=lambda root: root.slots.update({2: [value]}))
    with pytest.raises(FormatError) as raised:
        graph_of(g)
    assert str(raised.value).startswith(f"VkGraph.values[0].{message}")


def test_offsets_are_absolute_in_the_file() -> None:
    g = GraphWriter()
    g.tensor((0x12345678,))
    data = bytearray(write_pte(g))
    at = data.index(struct.pack("<II", 1, 0x12345678))
    struct.pack_into("<I", data, at, 9000000)
    message = r"VkGraph.values\[0\].dims: vector of 9000000 elements runs past the end"
    with pytest.raises(FormatError, match=message) as raised:
        read_graph(bytes(data))
    assert raised.value.offset == at


def test_a_graph_needs_its_identifier() -> None:
    with pytest.raises(
        FormatError, match="not a Vulkan graph: its identifier is b'VK01'"
    ) as raised:
        parse_graph(b"\x08\0\0\0VK01" + bytes(16), 500)
    assert raised.value.offset == 504


def test_inline_constants_must_lie_in_their_area() -> None:
    g = GraphWriter()
    g.constant(b"x" * 20)
    g.constant(b"y" * 10)
    blob = g.blob(inline_constants=True)
    region = Region(BytesSource(bytes(100) + blob), 100, len(blob))
    delegate = run(read_delegate(region))
    assert delegate.graph.constants == (VkBytes(0, 20, None), VkBytes(32, 10, None))
    assert delegate.constants == Span(100 + len(blob) - 48, 48)
    g.constants[1].length = 17
    blob = g.blob(inline_constants=True)
    with pytest.raises(FormatError, match=r"constants\[1\].offset: bytes 32 to 49 are not in"):
        run(read_delegate(Region(BytesSource(blob), 0, len(blob))))
