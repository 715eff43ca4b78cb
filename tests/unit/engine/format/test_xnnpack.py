"""The reader of XNNPACK delegates, against a writer that keeps a separate list of slots."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pytest

from support.harness.reading import run
from support.write.flat_writer import Node, Scalar, Vector
from support.write.xnnpack_writer import (
    FIELDS,
    NODES,
    TYPES,
    Quant,
    XnnpackWriter,
    per_block,
    per_channel,
    per_row,
    per_tensor,
)
from webpte.engine.files.source import BytesSource, Region
from webpte.engine.format.flat import Span
from webpte.engine.format.xnnpack import (
    PerBlockQuant,
    PerChannelQuant,
    PerRowQuant,
    PerTensorQuant,
    XnnBytes,
    XnnDataType,
    XnnGraph,
    XnnNode,
    XnnTensor,
    parse_graph,
    parse_header,
    read_delegate,
)
from webpte.errors import FormatError


def graph_of(g: XnnpackWriter, *, header: bool = True, base: int = 0) -> XnnGraph:
    blob = g.blob(header=header)
    return run(read_delegate(Region(BytesSource(bytes(base) + blob), base, len(blob))))


def the_node(g: XnnpackWriter) -> XnnNode:
    (node,) = graph_of(g).nodes
    return node


# --- header and identifiers ---------------------------------------------------------------------


@pytest.mark.parametrize("identifier", [b"XN00", b"XN01"])
@pytest.mark.parametrize("header", [True, False])
def test_both_identifiers_with_and_without_a_header(identifier: bytes, header: bool) -> None:
    g = XnnpackWriter(identifier=identifier)
    g.value((3,), constant=b"x" * 12)
    blob = g.blob(header=header)
    graph = graph_of(g, header=header, base=64)
    (none, constant) = graph.constants
    assert none.size == 0
    assert constant.span is not None
    assert constant.size == constant.span.size == 12
    start = constant.span.offset - 64
    assert blob[start : start + 12] == b"x" * 12


def test_another_identifier() -> None:
    with pytest.raises(FormatError, match="not an XNNPACK graph: its identifier is b'XN02'") as at:
        graph_of(XnnpackWriter(identifier=b"XN02"), base=100)
    assert at.value.offset == 136  # after the header of 32 bytes


def test_a_blob_that_is_neither() -> None:
    head = struct.pack("<4s4sHIIIQ", b"", b"VH00", 30, 32, 100, 144, 0)
    with pytest.raises(FormatError, match="not an XNNPACK delegate: magic b'VH00', not b'XH00'"):
        parse_header(head, 150, 0)
    for size in range(30):
        with pytest.raises(FormatError):
            run(read_delegate(Region(BytesSource(bytes(size)), 0, size)))


# --- nodes --------------------------------------------------------------------------------------

# The reader's names of the writer's fields.
Names: TypeAlias = dict[str, "str | tuple[str, str]"]
_SIDES: Names = {side: f"padding_{side}" for side in ("top", "right", "bottom", "left")}


def pair(name: str) -> tuple[str, str]:
    return f"{name}_height", f"{name}_width"


_CONVOLUTION: Names = {
    **_SIDES,
    "kernel": pair("kernel"),
    "stride": pair("subsampling"),
    "dilation": pair("dilation"),
    "inputs": "group_input_channels",
    "outputs": "group_output_channels",
    "groups": "groups",
    "adjustment": pair("adjustment"),
}
_POOL: Names = {
    **_SIDES,
    "kernel": pair("pooling"),
    "stride": pair("stride"),
    "dilation": pair("dilation"),
}
NAMES: dict[str, Names] = {
    "Conv2d": _CONVOLUTION,
    "DepthwiseConv2d": _CONVOLUTION,
    "ConvTranspose2d": _CONVOLUTION,
    "AvgPooling2d": _POOL,
    "MaxPooling2d": _POOL,
    "ArgMaxPooling2d": {**_SIDES, "kernel": pair("pooling")},
    "StaticResizeBilinear2D": {"size": pair("new")},
    "StaticTranspose": {"num_dims": "num_dims", "perm": "perm"},
    "StaticReshape": {"num_dims": "num_dims", "shape": "new_shape"},
    "StaticSlice": {"num_dims": "num_dims", "offsets": "offsets", "sizes": "sizes"},
    "StaticConstantPad": {
        "before": "pre_paddings",
        "after": "post_paddings",
        "value": "padding_value",
    },
    "LeakyReLU": {"slope": "negative_slope"},
    "ELU": {"alpha": "alpha"},
    **{f"Concatenate{count}": {"axis": "axis"} for count in range(2, 6)},
}
FLOATS = ("value", "slope", "alpha")
LISTS = ("perm", "shape", "offsets", "sizes", "before", "after")
_CONVOLVED = ["input1_id", "filter_id", "bias_id", "output_id"]
IDS = {
    "FullyConnected": _CONVOLVED,
    "Conv2d": _CONVOLVED,
    "DepthwiseConv2d": _CONVOLVED,
    "ConvTranspose2d": _CONVOLVED,
    "ArgMaxPooling2d": ["input_id", "output_value_id", "output_index_id"],
    "ScaledDotProductAttention": [
        *("query_id", "key_id", "value_id", "scale_id", "mask_id", "output_id")
    ],
}


def ids_of(kind: str) -> list[str]:
    count = len(NODES[kind][1])
    if kind in IDS:
        return IDS[kind]
    if kind.startswith("Concatenate"):
        return [*(f"input{number}_id" for number in range(1, count)), "output_id"]
    return ["input_id", "output_id"] if count == 2 else ["input1_id", "input2_id", "output_id"]


def fields_of(kind: str) -> dict[str, Any]:
    """Distinct values for every field of a kind of node."""
    numbers = iter(range(20, 60))
    found: dict[str, Any] = {}
    for name, slot in FIELDS.get(kind, {}).items():
        if name in FLOATS:
            found[name] = next(numbers) + 0.5
        elif name in LISTS:
            found[name] = (next(numbers), next(numbers))
        else:
            found[name] = next(numbers) if isinstance(slot, int) else (next(numbers), next(numbers))
    return found


def expected(kind: str, fields: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """The integers, lists and numbers of a node under the reader's names."""
    integers: dict[str, Any] = {"flags": 77}
    lists: dict[str, Any] = {}
    numbers: dict[str, Any] = {}
    for name, value in fields.items():
        theirs = NAMES[kind][name]
        if isinstance(theirs, tuple):
            integers |= zip(theirs, value, strict=True)
        else:
            target = lists if name in LISTS else numbers if name in FLOATS else integers
            target[theirs] = value
    return integers, lists, numbers


@pytest.mark.parametrize("kind", NODES)
def test_every_kind_of_node(kind: str) -> None:
    g = XnnpackWriter(first_id=5)
    ids = [g.value((1,)) for _ in NODES[kind][1]]
    fields = fields_of(kind)
    g.node(kind, *ids, flags=77, clamp=(-1.5, math.inf), **fields)
    node = the_node(g)
    assert node.kind == kind
    assert node.ids == dict(zip(ids_of(kind), ids, strict=True))
    assert (node.integers, node.lists, node.numbers) == expected(kind, fields)
    assert node.clamp == (-1.5, math.inf)


def test_nodes_without_limits_or_a_bias() -> None:
    g = XnnpackWriter()
    x, w, y = (g.value((1,)) for _ in range(3))
    g.node("FullyConnected", x, w, None, y)
    node = the_node(g)
    assert node.clamp is None
    assert "bias_id" not in node.ids


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TYPES)
def test_every_type(name: str) -> None:
    g = XnnpackWriter()
    g.value((2, 3), name)
    (value,) = graph_of(g).values
    assert value.datatype is XnnDataType[name.upper()]
    assert value.dims == (2, 3)
    bits = {"4": 4, "8": 8, "6": 16}.get(name[-1], 32)
    assert value.datatype.bits == bits


def test_values_and_arguments() -> None:
    g = XnnpackWriter(first_id=7)
    g.value((2, 3), argument=4)
    g.value((), argument=2, output=True)
    g.value((3,), constant=b"x" * 12)
    g.value((1,), rounds=3)
    given, output, constant, rounded = graph_of(g).values
    dtype = XnnDataType.FP32
    assert given == XnnTensor(7, dtype, (2, 3), None, 4, True, False, None, False)
    assert output == XnnTensor(8, dtype, (), None, 2, False, True, None, False)
    assert constant == XnnTensor(9, dtype, (3,), 1, None, False, False, None, False)
    assert rounded.quantizes_input


@pytest.mark.parametrize(
    ("quant", "found"),
    [
        (per_tensor(0.5, -3), PerTensorQuant(0.5, -3)),
        (per_channel([0.5, 2], axis=3), PerChannelQuant((0.5, 2.0), 3, None)),
        (per_channel([], axis=1, buffer=1), PerChannelQuant((), 1, 1)),
        (per_row(2), PerRowQuant(2)),
        (per_block([0.5, 2, 4], 32, axis=0), PerBlockQuant((0.5, 2.0, 4.0), 0, 32, None)),
        (per_block([], 64, buffer=1), PerBlockQuant((), 0, 64, 1)),
    ],
)
def test_every_kind_of_quantization(quant: Quant, found: object) -> None:
    g = XnnpackWriter()
    g.value((2, 3), "qint8", quant=quant)
    g.constant(b"scales")
    (value,) = graph_of(g).values
    assert value.quantization == found
    assert value.dims == (2, 3)


def test_constants_by_offset_and_by_key() -> None:
    g = XnnpackWriter()
    first = g.constant(b"x" * 20)
    named = g.constant(b"y" * 10, key="weights")
    last = g.constant(b"z" * 4)
    graph = graph_of(g, base=96)
    assert (first, named, last) == (1, 2, 3)
    blob = g.blob()
    assert graph.constants[named] == XnnBytes(None, 10, "weights")
    for number, data in ((first, b"x" * 20), (last, b"z" * 4)):
        span = graph.constants[number].span
        assert span is not None
        assert (bytes(96) + blob)[span.offset : span.end] == data


# --- errors -------------------------------------------------------------------------------------


def every_kind(edit: Callable[[Node], None]) -> XnnpackWriter:
    g = XnnpackWriter(edit=edit)
    x, y = g.value((2, 3), argument=0), g.value((2, 3), argument=1, output=True)
    g.value((3,), "qint8", constant=b"xyz", quant=per_tensor(0.5))
    g.value((2, 3), "qbint4", quant=per_block([1, 2], 3))
    g.node("Abs", x, y)
    return g


def edited(*path: int, to: Any) -> Callable[[Node], None]:
    """Set the field at a path: indices of lists, and slots of tables."""

    def edit(root: Node) -> None:
        place: Any = root
        for step in path[:-1]:
            place = place[step] if isinstance(place, list) else place.slots[step]
        place.slots[path[-1]] = to

    return edit


NONE = (1 << 32) - 1


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            edited(1, 0, 0, to=Scalar("u8", 48)),
            "xnodes[0].xnode_union_type: unknown kind of node 48",
        ),
        (edited(1, 0, 0, to=Scalar("u8", 0)), "xnodes[0].xnode_union_type: unknown kind of node 0"),
        (edited(1, 0, 1, to=None), "xnodes[0].xnode_union: is missing"),
        (edited(1, 0, 1, 0, to=Scalar("u32", 4)), "xnodes[0].input_id: value 4 does not exist"),
        (edited(1, 0, 1, 0, to=Scalar("u32", NONE)), "xnodes[0].input_id: value 4294967295 does"),
        (
            edited(2, 0, 0, to=Scalar("u8", 3)),
            "xvalues[0].xvalue_union_type: unknown kind of value",
        ),
        (edited(2, 0, 1, 0, to=Scalar("i16", 15)), "xvalues[0].datatype: unknown element type 15"),
        (
            edited(2, 0, 1, 7, to=Scalar("i16", -1)),
            "xvalues[0].dq_datatype: unknown element type -1",
        ),
        (edited(2, 0, 1, 1, to=Scalar("u32", 3)), "xvalues[0].dims: 2 dims, where num_dims says 3"),
        (edited(2, 0, 1, 2, to=Vector("u32", [1] * 65)), "xvalues[0].dims: rank 65 is over 64"),
        (
            edited(2, 0, 1, 2, to=Vector("u32", [NONE, NONE])),
            "xvalues[0].dims: the tensor would have 2**53 bytes or more",
        ),
        (
            edited(2, 0, 1, 3, to=Scalar("u32", 2)),
            "xvalues[0].constant_buffer_idx: constant 2 does",
        ),
        (
            edited(2, 0, 1, 6, to=Scalar("u32", NONE)),
            "xvalues[0].id_out: is the number of an absent",
        ),
        (edited(2, 0, 1, 6, to=Scalar("u32", 1)), "xvalues: two values have the same id"),
        (edited(2, 2, 1, 0, to=None), "xvalues[2].tensor_value: is missing"),
        (
            edited(2, 2, 1, 1, to=Scalar("u8", 5)),
            "xvalues[2].quant_params_type: unknown kind of quan",
        ),
        (edited(2, 2, 1, 2, to=None), "xvalues[2].quant_params: is missing"),
        (edited(2, 3, 1, 2, 2, to=Scalar("i32", 0)), "xvalues[3].group_size: groups of 0 elements"),
        (edited(2, 3, 1, 2, 2, to=Scalar("i32", -32)), "xvalues[3].group_size: groups of -32"),
        (
            edited(2, 3, 1, 2, 4, to=Scalar("u32", 9)),
            "xvalues[3].scale_buffer_idx: constant 9 does",
        ),
        (edited(8, 1, 0, to=Scalar("u64", 1 << 40)), "constant_data[1].offset: bytes 10995116"),
        (
            edited(8, 1, 1, to=Scalar("u64", 17)),
            "constant_data[1].offset: bytes 0 to 17 are not in",
        ),
        (
            edited(8, 1, 1, to=Scalar("u64", (1 << 64) - 1)),
            "constant_data[1].offset: bytes 0 to 1844",
        ),
    ],
)
def test_errors(edit: Callable[[Node], None], message: str) -> None:
    with pytest.raises(FormatError) as raised:
        graph_of(every_kind(edit))
    assert str(raised.value).startswith(f"XNNGraph.{message}")


def test_the_graph_of_the_errors_is_good() -> None:
    assert len(graph_of(every_kind(lambda root: None)).values) == 4


def test_a_constant_inside_of_the_flatbuffer_must_be_there() -> None:
    g = every_kind(edited(6, to=[Node({0: b""})]))
    with pytest.raises(FormatError, match="constant_buffer_idx: constant 1 does not exist"):
        graph_of(g, header=False)


def test_constants_of_the_other_place_do_not_count() -> None:
    """Constants are after the flatbuffer if there is a header, not inside."""
    g = every_kind(edited(8, to=[]))
    with pytest.raises(FormatError, match="constant 1 does not exist, there are 0"):
        graph_of(g)


def vectors(flatbuffer: bytes) -> Iterator[int]:
    """Every place that could be the count of a vector."""
    yield from range(8, len(flatbuffer) - 4, 4)


def test_counts_that_no_file_could_hold() -> None:
    flatbuffer = every_kind(lambda root: None).blob(header=False)
    refused = 0
    for at in vectors(flatbuffer):
        changed = bytearray(flatbuffer)
        struct.pack_into("<I", changed, at, 0x3FFFFFFF)
        try:
            parse_graph(bytes(changed), 0, None)
        except FormatError:
            refused += 1
    assert refused > 20


def test_offsets_of_errors_are_absolute_in_the_file() -> None:
    g = XnnpackWriter()
    g.value((0x12345,))
    blob = bytearray(g.blob())
    at = blob.index(struct.pack("<II", 1, 0x12345))
    struct.pack_into("<I", blob, at, 9_000_000)
    with pytest.raises(FormatError, match="vector of 9000000 elements runs past the end") as found:
        run(read_delegate(Region(BytesSource(bytes(500) + blob), 500, len(blob))))
    assert found.value.offset == 500 + at


def test_spans_of_constants_in_a_region() -> None:
    g = XnnpackWriter()
    g.value((3,), constant=np.arange(3, dtype=np.float32))
    blob = g.blob(header=False)
    graph = parse_graph(blob, 1000, None)
    span = graph.constants[1].span
    assert span == Span(1000 + blob.index(struct.pack("<f", 1)) - 4, 12)
