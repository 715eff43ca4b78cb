"""Reader of Vulkan delegate blobs: the VH00 header and the VK00 graph.

    byte  0  4 zero bytes              10  u32  flatbuffer offset      18  u32  constants offset
          4  "VH00"                    14  u32  flatbuffer bytes       22  u64  constants bytes
          8  u16  header bytes

A trap of this schema: the ids of constants and memory objects default to 0, so an absent field
means number 0. "None" is an explicit negative number, which becomes None in the records.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import TypeAlias

from webpte.engine.files.source import Region
from webpte.engine.format.flat import I32, I64, IDENTIFIER_AT, U32, FlatBuffer, FlatTable, Span
from webpte.engine.format.shared import byte_size, check_extent
from webpte.errors import FormatError

__all__ = [
    "BoolListValue",
    "BoolValue",
    "DataType",
    "DelegateHeader",
    "DoubleListValue",
    "DoubleValue",
    "IntListValue",
    "IntValue",
    "NullValue",
    "OperatorCall",
    "Span",
    "StringValue",
    "SymIntValue",
    "TensorValue",
    "ValueListValue",
    "VkBytes",
    "VkDelegate",
    "VkGraph",
    "VkValue",
    "parse_graph",
    "parse_header",
    "read_delegate",
]

HEADER = Struct("<4s4sHIIIQ")
MAGIC = b"VH00"
IDENTIFIER = b"VK00"
# An offset with all bits set means that the bytes are named data, not part of the blob.
NAMED = (1 << 64) - 1
DEFAULT = 255


class DataType(IntEnum):
    """Element types of tensors inside the delegate."""

    BOOL = 0
    UINT8 = 1
    INT8 = 2
    INT32 = 3
    FLOAT16 = 4
    FLOAT32 = 5
    FLOAT64 = 6
    INT64 = 7
    UNSET = 127

    @property
    def itemsize(self) -> int:
        """Bytes per element; 0 for UNSET."""
        return 0 if self is DataType.UNSET else (1, 1, 1, 4, 2, 4, 8, 8)[self]


@dataclass(frozen=True, slots=True)
class NullValue:
    """None, or an argument that the exporter does not encode: dtype, layout, device."""


@dataclass(frozen=True, slots=True)
class IntValue:
    """An int; may stand for a float, because the exporter writes equal scalars once."""

    value: int


@dataclass(frozen=True, slots=True)
class DoubleValue:
    """A float; may stand for an int, because the exporter writes equal scalars once."""

    value: float


@dataclass(frozen=True, slots=True)
class BoolValue:
    """A bool."""

    value: bool


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A tensor; `dims` are upper bounds. Storage type and memory layout only matter to Vulkan.

    `constant_id` indexes `VkGraph.constants` and may be out of range. Tensors with the same
    `mem_obj_id` may share memory. `staging_datatype` is the element type on the host's side.
    """

    datatype: DataType
    dims: tuple[int, ...]
    constant_id: int | None
    mem_obj_id: int | None
    storage_type: int
    memory_layout: int
    staging_datatype: DataType

    @property
    def nbytes(self) -> int:
        return byte_size(self.dims, self.datatype.itemsize)


@dataclass(frozen=True, slots=True)
class IntListValue:
    """A list of ints, stored directly, unlike the program's lists."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DoubleListValue:
    """A list of floats, stored directly."""

    items: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BoolListValue:
    """A list of bools, stored directly."""

    items: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class ValueListValue:
    """Value ids: a list with symbolic members, or the outputs of an operator; never nested."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StringValue:
    """A string."""

    value: str


@dataclass(frozen=True, slots=True)
class SymIntValue:
    """An int that is known only at run time; `value` is its value at export."""

    value: int


VkValue: TypeAlias = (
    NullValue
    | IntValue
    | DoubleValue
    | BoolValue
    | TensorValue
    | IntListValue
    | DoubleListValue
    | BoolListValue
    | ValueListValue
    | StringValue
    | SymIntValue
)


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """A single node. Args follow the operator's schema, the output comes last."""

    node_id: int
    name: str
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VkBytes:
    """A constant: at `offset` in the blob's constants, or named data if `offset` is None."""

    offset: int | None
    length: int
    named_key: str | None


@dataclass(frozen=True, slots=True)
class VkGraph:
    """The graph; ids index `values`."""

    version: str
    chain: tuple[OperatorCall, ...]
    values: tuple[VkValue, ...]
    input_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    constants: tuple[VkBytes, ...]


@dataclass(frozen=True, slots=True)
class DelegateHeader:
    """Spans of the blob's parts, relative to the blob."""

    flatbuffer: Span
    constants: Span


@dataclass(frozen=True, slots=True)
class VkDelegate:
    """The graph, and the span of its inline constants in the file."""

    graph: VkGraph
    constants: Span


async def read_delegate(region: Region) -> VkDelegate:
    """Read header and graph of the blob in `region`; the constants are not read."""
    head = await region.read(0, min(HEADER.size, region.size))
    header = parse_header(head, region.size, region.offset)
    part = header.flatbuffer
    flatbuffer = await region.read(part.offset, part.size)
    constants = Span(region.offset + header.constants.offset, header.constants.size)
    graph = parse_graph(flatbuffer, region.offset + part.offset, constants.size)
    return VkDelegate(graph, constants)


def parse_header(head: bytes, blob_size: int, base: int) -> DelegateHeader:
    """Parse the first 30 bytes of a blob; `base` is the blob's offset in the file."""
    return parse_parts(head, blob_size, base, "a Vulkan delegate", MAGIC)


def parse_parts(
    head: bytes, blob_size: int, base: int, kind: str, expected: bytes
) -> DelegateHeader:
    """Parse a header, which Vulkan's and XNNPACK's delegates have alike but for the magic."""
    if len(head) < HEADER.size:
        raise FormatError(f"a delegate of {blob_size} bytes has no room for its header", base)
    _, magic, length, start, size, constants_start, constants_size = HEADER.unpack_from(head)
    if magic != expected:
        raise FormatError(f"not {kind}: magic {magic!r}, not {expected!r}", base + 4)
    if length < HEADER.size:
        raise FormatError(f"a delegate header of {length} bytes lacks its fields", base + 8)
    if size == 0 or start < length or start + size > blob_size:
        raise FormatError(
            f"the delegate's graph at {start} to {start + size} is not inside of its blob "
            f"of {blob_size} bytes",
            base + 10,
        )
    # The size is 0 in exports without inline constants, and in some older exports with constants.
    constants_size = constants_size or max(0, blob_size - constants_start)
    if constants_start < start + size or constants_start + constants_size > blob_size:
        raise FormatError(
            f"the delegate's constants at {constants_start} to {constants_start + constants_size} "
            f"are not between its graph and the end of its blob of {blob_size} bytes",
            base + 18,
        )
    return DelegateHeader(Span(start, size), Span(constants_start, constants_size))


def parse_graph(flatbuffer: bytes, base: int, constants_size: int | None = None) -> VkGraph:
    """Parse the graph; check the ranges of inline constants if `constants_size` is given."""
    identifier = flatbuffer[IDENTIFIER_AT : IDENTIFIER_AT + 4]
    if identifier != IDENTIFIER:
        raise FormatError(
            f"not a Vulkan graph: its identifier is {identifier!r}, not {IDENTIFIER!r}",
            base + IDENTIFIER_AT,
        )
    root = FlatBuffer(flatbuffer, base).root("VkGraph")
    count = root.count(2, "values")
    return VkGraph(
        version=root.text(0, "version"),
        chain=tuple(
            OperatorCall(
                item.u32(0, "node_id"),
                item.text(1, "name"),
                item.indices(2, "args", I32, count, "value"),
            )
            for item in root.tables(1, "chain")
        ),
        values=_values(root, count),
        input_ids=root.indices(3, "input_ids", U32, count, "value"),
        output_ids=root.indices(4, "output_ids", U32, count, "value"),
        constants=tuple(_constant(item, constants_size) for item in root.tables(5, "constants")),
    )


def _constant(table: FlatTable, area: int | None) -> VkBytes:
    offset, length = table.u64(0, "offset"), table.u64(1, "length")
    key = table.text(2, "named_key")
    if offset == NAMED:
        if not key:
            raise table.error(2, "named_key", "is missing, and there is no offset either")
        return VkBytes(None, length, key)
    if area is not None and length and offset + length > area:
        message = f"bytes {offset} to {offset + length} are not in the delegate's {area} bytes"
        raise table.error(0, "offset", f"{message} of constants")
    return VkBytes(offset, length, key or None)


def _values(root: FlatTable, count: int) -> tuple[VkValue, ...]:
    values: list[VkValue] = []
    lists: list[tuple[FlatTable, ValueListValue]] = []
    for item in root.tables(2, "values"):
        tag, table = item.union(0, "value")
        value = _value(item, tag, table, count)
        if isinstance(value, ValueListValue):
            lists.append((table, value))
        values.append(value)
    for table, listed in lists:
        for i, member in enumerate(listed.items):
            if isinstance(values[member], ValueListValue):
                message = f"value {member} is a list itself"
                raise table.element_error(0, "items", I32, i, message)
    return tuple(values)


def _value(item: FlatTable, tag: int, table: FlatTable, count: int) -> VkValue:
    match tag:
        case 1:
            return NullValue()
        case 2:
            return IntValue(table.i64(0, "int_val"))
        case 3:
            return DoubleValue(table.f64(0, "double_val"))
        case 4:
            return BoolValue(table.boolean(0, "bool_val"))
        case 5:
            return _tensor(table)
        case 6:
            return IntListValue(table.integers(0, "items", I64))
        case 7:
            return DoubleListValue(table.floats(0, "items"))
        case 8:
            return BoolListValue(table.booleans(0, "items"))
        case 9:
            return ValueListValue(table.indices(0, "items", I32, count, "value"))
        case 10:
            return StringValue(table.text(0, "string_val"))
        case 11:
            return SymIntValue(table.i32(0, "value"))
    raise item.error(0, "value_type", f"unknown kind of value {tag}")


def _tensor(table: FlatTable) -> TensorValue:
    datatype = table.enum(0, "datatype", DataType)
    if datatype is DataType.UNSET:
        raise table.error(0, "datatype", "a tensor needs a type")
    dims = table.integers(1, "dims", U32)
    check_extent(table, 1, "dims", dims, datatype.itemsize)
    constant_id, mem_obj_id = table.i32(2, "constant_id"), table.i32(3, "mem_obj_id")
    return TensorValue(
        datatype=datatype,
        dims=dims,
        constant_id=None if constant_id < 0 else constant_id,
        mem_obj_id=None if mem_obj_id < 0 else mem_obj_id,
        storage_type=table.u8(4, "storage_type", DEFAULT),
        memory_layout=table.u8(5, "memory_layout", DEFAULT),
        staging_datatype=table.enum(6, "staging_datatype", DataType, DataType.UNSET),
    )
