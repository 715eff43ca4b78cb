"""Reader of XNNPACK delegate blobs: the XH00 header and the XN00 or XN01 graph.

    byte  0  4 zero bytes              10  u32  flatbuffer offset      18  u32  constants offset
          4  "XH00"                    14  u32  flatbuffer bytes       22  u64  constants bytes
          8  u16  header bytes

Blobs of the first releases have no header: the whole blob is the flatbuffer, and constants are in
its buffers. Nodes name values by the `id` that each value states, and not by its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from webpte.engine.files.source import Region
from webpte.engine.format.flat import F32, IDENTIFIER_AT, U32, FlatBuffer, FlatTable, Span
from webpte.engine.format.shared import check_extent
from webpte.engine.format.vulkan import HEADER, DelegateHeader, parse_parts
from webpte.errors import FormatError

__all__ = [
    "PerBlockQuant",
    "PerChannelQuant",
    "PerRowQuant",
    "PerTensorQuant",
    "XnnBytes",
    "XnnDataType",
    "XnnGraph",
    "XnnNode",
    "XnnTensor",
    "parse_graph",
    "read_delegate",
]

MAGIC = b"XH00"
IDENTIFIERS = (b"XN00", b"XN01")
NOTHING = (1 << 32) - 1  # id of an absent value
IS_INPUT, IS_OUTPUT = 1, 2  # flags of a value


class XnnDataType(IntEnum):
    """Element types of XNNPACK's values."""

    INVALID = 0
    FP32 = 1
    FP16 = 2
    QINT8 = 3
    QUINT8 = 4
    QINT32 = 5
    QCINT8 = 6
    QCINT32 = 7
    QCINT4 = 8
    QDINT8 = 9
    QBINT4 = 10
    QPINT8 = 11
    INT32 = 12
    PFP32 = 13
    BF16 = 14

    @property
    def bits(self) -> int:
        """Bits per element."""
        if self in (XnnDataType.QCINT4, XnnDataType.QBINT4):
            return 4
        if self in (XnnDataType.QINT8, XnnDataType.QUINT8, XnnDataType.QCINT8, XnnDataType.QDINT8):
            return 8
        return 16 if self in (XnnDataType.FP16, XnnDataType.BF16) else 32


@dataclass(frozen=True, slots=True)
class PerTensorQuant:
    """A scale and a zero point of all elements."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class PerChannelQuant:
    """A scale per index of `axis`: in the graph, or the constant number `buffer`."""

    scales: tuple[float, ...]
    axis: int
    buffer: int | None


@dataclass(frozen=True, slots=True)
class PerRowQuant:
    """Scales and zero points that are computed in each run, for the last `dims` dims together."""

    dims: int


@dataclass(frozen=True, slots=True)
class PerBlockQuant:
    """A scale per `size` elements of a row: floats in the graph, or bf16 in constant `buffer`."""

    scales: tuple[float, ...]
    axis: int
    size: int
    buffer: int | None


Quantization: TypeAlias = PerTensorQuant | PerChannelQuant | PerRowQuant | PerBlockQuant


@dataclass(frozen=True, slots=True)
class XnnTensor:
    """A value. `constant` indexes `XnnGraph.constants`, `external` the arguments of the delegate.

    A value with `quantizes_input` stands for a float input that is quantized row by row.
    """

    id: int
    datatype: XnnDataType
    dims: tuple[int, ...]
    constant: int | None
    external: int | None
    is_input: bool
    is_output: bool
    quantization: Quantization | None
    quantizes_input: bool


@dataclass(frozen=True, slots=True)
class XnnNode:
    """A node, with its fields by their names in the schema. Ids of absent values are missing."""

    kind: str
    ids: Mapping[str, int]
    integers: Mapping[str, int]
    lists: Mapping[str, tuple[int, ...]]
    numbers: Mapping[str, float]
    clamp: tuple[float, float] | None  # least and largest output


@dataclass(frozen=True, slots=True)
class XnnBytes:
    """A constant: a span of the file, or named data if `span` is None."""

    span: Span | None
    size: int
    named_key: str | None


@dataclass(frozen=True, slots=True)
class XnnGraph:
    """The graph. Constant 0 stands for no constant."""

    nodes: tuple[XnnNode, ...]
    values: tuple[XnnTensor, ...]
    constants: tuple[XnnBytes, ...]


# Fields of the kinds of nodes, in the order of their slots: numbers, `ids*` of values, `[lists]`
# and `(floats)`. An id with a `?` may be absent.
_UNARY = "input_id* output_id* flags"
_BINARY = "input1_id* input2_id* output_id* flags"
_CONVOLUTION = (
    "padding_top padding_right padding_bottom padding_left kernel_height kernel_width "
    "subsampling_height subsampling_width dilation_height dilation_width group_input_channels "
    "group_output_channels groups adjustment_height adjustment_width "
    "input1_id* filter_id* bias_id? output_id* flags"
)
_PADDINGS = "padding_top padding_right padding_bottom padding_left pooling_height pooling_width "
_POOLING = _PADDINGS + (
    "stride_height stride_width dilation_height dilation_width input_id* output_id* flags"
)


def _concatenation(count: int) -> str:
    ids = [f"input{i}_id*" if i <= count else f"input{i}_id-" for i in range(1, 6)]
    return " ".join(["axis", *ids[:4], "output_id*", "flags", ids[4]])


# Kinds of nodes by their tag in the union, from 1.
KINDS: tuple[tuple[str, str], ...] = (
    ("Add", _BINARY),
    ("FullyConnected", "input1_id* filter_id* bias_id? output_id* flags"),
    ("Softmax", _UNARY),
    ("Sigmoid", _UNARY),
    ("StaticTranspose", "num_dims [perm] input_id* output_id* flags"),
    ("Clamp", _UNARY),
    ("Conv2d", _CONVOLUTION),
    ("Div", _BINARY),
    ("StaticResizeBilinear2D", "new_height new_width input_id* output_id* flags"),
    (
        "StaticConstantPad",
        "[pre_paddings] [post_paddings] (padding_value) input_id* output_id* flags",
    ),
    ("AvgPooling2d", _POOLING),
    ("Minimum", _BINARY),
    ("DepthwiseConv2d", _CONVOLUTION),
    ("MaxPooling2d", _POOLING),
    ("Multiply", _BINARY),
    ("Subtract", _BINARY),
    ("Floor", _UNARY),
    ("Convert", _UNARY),
    ("GlobalAvgPooling2d", _UNARY),
    ("StaticReshape", "num_dims [new_shape] input_id* output_id* flags"),
    ("ArgMaxPooling2d", _PADDINGS + "input_id* output_value_id* output_index_id* flags"),
    ("SquareRoot", _UNARY),
    ("Ceiling", _UNARY),
    ("Hardswish", _UNARY),
    ("LeakyReLU", "(negative_slope) input_id* output_id* flags"),
    ("Maximum", _BINARY),
    ("Negate", _UNARY),
    ("Square", _UNARY),
    ("ELU", "(alpha) input_id* output_id* flags"),
    ("Abs", _UNARY),
    ("PReLU", _BINARY),
    ("Concatenate2", _concatenation(2)),
    ("Concatenate3", _concatenation(3)),
    ("Concatenate4", _concatenation(4)),
    ("StaticSlice", "num_dims [offsets] [sizes] input_id* output_id* flags"),
    (
        "ScaledDotProductAttention",
        "query_id* key_id* value_id* scale_id* mask_id* output_id* flags",
    ),
    ("BatchMatrixMultiply", _BINARY),
    ("Concatenate5", _concatenation(5)),
    ("ConvTranspose2d", _CONVOLUTION),
    ("ReciprocalSquareRoot", _UNARY),
    ("Log", _UNARY),
    ("Gelu", _UNARY),
    ("Tanh", _UNARY),
    ("Exp", _UNARY),
    ("Sin", _UNARY),
    ("Copy", _UNARY),
    ("Cos", _UNARY),
)


async def read_delegate(region: Region) -> XnnGraph:
    """Read header and graph of the blob in `region`; the constants are not read."""
    head = await region.read(0, min(HEADER.size, region.size))
    if head[4:8] in IDENTIFIERS:  # without a header
        flatbuffer = await region.read(0, region.size)
        return parse_graph(flatbuffer, region.offset, None)
    header = parse_header(head, region.size, region.offset)
    part = header.flatbuffer
    flatbuffer = await region.read(part.offset, part.size)
    constants = Span(region.offset + header.constants.offset, header.constants.size)
    return parse_graph(flatbuffer, region.offset + part.offset, constants)


def parse_header(head: bytes, blob_size: int, base: int) -> DelegateHeader:
    """Parse the first 30 bytes of a blob; `base` is the blob's offset in the file."""
    return parse_parts(head, blob_size, base, "an XNNPACK delegate", MAGIC)


def parse_graph(flatbuffer: bytes, base: int, constants: Span | None) -> XnnGraph:
    """Parse the graph at `base` in the file; `constants` is None where they are inside of it."""
    identifier = flatbuffer[IDENTIFIER_AT : IDENTIFIER_AT + 4]
    if identifier not in IDENTIFIERS:
        raise FormatError(
            f"not an XNNPACK graph: its identifier is {identifier!r}, not {IDENTIFIERS[-1]!r}",
            base + IDENTIFIER_AT,
        )
    root = FlatBuffer(flatbuffer, base).root("XNNGraph")
    if constants is None:
        found = tuple(_buffer(item) for item in root.tables(6, "constant_buffer"))
    else:
        found = tuple(_constant(item, constants) for item in root.tables(8, "constant_data"))
    values = tuple(_tensor(item, len(found)) for item in root.tables(2, "xvalues"))
    known = {value.id for value in values}
    if len(known) < len(values):
        raise root.error(2, "xvalues", "two values have the same id")
    nodes = tuple(_node(item, known) for item in root.tables(1, "xnodes"))
    return XnnGraph(nodes, values, found)


def _buffer(table: FlatTable) -> XnnBytes:
    span = table.span(0, "storage")
    return XnnBytes(span, span.size, None)


def _constant(table: FlatTable, area: Span) -> XnnBytes:
    offset, size = table.u64(0, "offset"), table.u64(1, "size")
    if table.has(2, "named_key") and (key := table.text(2, "named_key")):
        return XnnBytes(None, size, key)
    if offset + size > area.size:
        message = f"bytes {offset} to {offset + size} are not in the delegate's {area.size} bytes"
        raise table.error(0, "offset", f"{message} of constants")
    return XnnBytes(Span(area.offset + offset, size), size, None)


def _tensor(item: FlatTable, constants: int) -> XnnTensor:
    tag, outer = item.union(0, "xvalue_union")
    if tag not in (1, 2):
        raise item.error(0, "xvalue_union_type", f"unknown kind of value {tag}")
    table = outer if tag == 1 else outer.required(0, "tensor_value")
    dims, datatype = table.integers(2, "dims", U32), _datatype(table, 0, "datatype")
    check_extent(table, 2, "dims", dims, (datatype.bits + 7) // 8)
    if (count := table.u32(1, "num_dims")) != len(dims):
        raise table.error(2, "dims", f"{len(dims)} dims, where num_dims says {count}")
    if (value_id := table.u32(6, "id_out")) == NOTHING:
        raise table.error(6, "id_out", "is the number of an absent value")
    external, flags = table.u32(4, "external_id"), table.u32(5, "flags")
    return XnnTensor(
        id=value_id,
        datatype=datatype,
        dims=dims,
        constant=_constant_index(table, 3, "constant_buffer_idx", constants),
        external=None if external == NOTHING else external,
        is_input=bool(flags & IS_INPUT),
        is_output=bool(flags & IS_OUTPUT),
        quantization=_quantization(outer, constants) if tag == 2 else None,
        quantizes_input=_datatype(table, 7, "dq_datatype") is not XnnDataType.INVALID,
    )


def _datatype(table: FlatTable, slot: int, name: str) -> XnnDataType:
    code = table.i16(slot, name)
    try:
        return XnnDataType(code)
    except ValueError:
        raise table.error(slot, name, f"unknown element type {code}") from None


def _constant_index(table: FlatTable, slot: int, name: str, count: int) -> int | None:
    """Read the number of a constant, of which 0 means that there is no constant."""
    if table.u32(slot, name) == 0:
        return None
    return table.unsigned_index(slot, name, count, "constant")


def _quantization(value: FlatTable, constants: int) -> Quantization:
    tag, table = value.union(1, "quant_params")
    match tag:
        case 1:
            buffer = _constant_index(table, 2, "scale_buffer_idx", constants)
            scales = table.floats(0, "scale", F32)
            return PerChannelQuant(scales, table.i32(1, "channel_dim"), buffer)
        case 2:
            return PerTensorQuant(table.f32(0, "scale"), table.i32(1, "zero_point"))
        case 3:
            return PerRowQuant(table.i32(0, "num_nonbatch_dims"))
        case 4:
            buffer = _constant_index(table, 4, "scale_buffer_idx", constants)
            scales = table.floats(0, "scale", F32)
            size = table.i32(2, "group_size")
            if size < 1:
                raise table.error(2, "group_size", f"groups of {size} elements")
            return PerBlockQuant(scales, table.i32(1, "channel_dim"), size, buffer)
    raise value.error(1, "quant_params_type", f"unknown kind of quantization {tag}")


def _node(item: FlatTable, known: set[int]) -> XnnNode:
    tag, table = item.union(0, "xnode_union")
    if not 1 <= tag <= len(KINDS):
        raise item.error(0, "xnode_union_type", f"unknown kind of node {tag}")
    kind, fields = KINDS[tag - 1]
    ids: dict[str, int] = {}
    integers: dict[str, int] = {}
    lists: dict[str, tuple[int, ...]] = {}
    numbers: dict[str, float] = {}
    for slot, field in enumerate(fields.split()):
        name = field.strip("*?-[]()")
        if field.startswith("["):
            lists[name] = table.integers(slot, name, U32)
        elif field.startswith("("):
            numbers[name] = table.f32(slot, name)
        elif field.endswith(("*", "?")):
            value = table.u32(slot, name)
            if value in known:
                ids[name] = value
            elif value != NOTHING or field.endswith("*"):
                raise table.error(slot, name, f"value {value} does not exist")
        elif not field.endswith("-"):
            integers[name] = table.u32(slot, name)
    limits = item.table(3, "output_min_max")
    clamp = None
    if limits is not None:
        clamp = limits.f32(0, "output_min"), limits.f32(1, "output_max")
    return XnnNode(kind, ids, integers, lists, numbers, clamp)
