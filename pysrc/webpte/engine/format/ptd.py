"""Reader of `.ptd` files: named tensor data outside of a program.

    byte  0  u32  root table            8  "FH01"                     24  u64  flatbuffer bytes
          4  "FT01"                    12  u32  header length         32  u64  start of the segments
                                       16  u64  flatbuffer offset     40  u64  bytes of the segments

The root table's offset counts from byte 0 of the file, although the header gives the flatbuffer an
offset after itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from webpte.engine.files.source import ByteSource
from webpte.engine.format.flat import IDENTIFIER_AT, FlatBuffer, FlatTable, Span
from webpte.engine.format.kinds import kind_of
from webpte.engine.format.shared import (
    ScalarType,
    byte_size,
    read_named_data,
    read_segments,
    read_shape,
)
from webpte.errors import FormatError, OtherFileError

__all__ = ["PtdHeader", "TensorData", "TensorLayout", "parse_header", "parse_ptd", "read_ptd"]

HEAD_SIZE = 64
_ADVICE = "give the .ptd that was exported with the program"
HEADER = Struct("<4sIQQQQ")
HEADER_AT = 8


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """Shape and type of a named tensor."""

    scalar_type: ScalarType
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorData:
    """The span of named bytes in the file. Blobs of a backend have no layout."""

    span: Span
    layout: TensorLayout | None


@dataclass(frozen=True, slots=True)
class PtdHeader:
    """The end of the flatbuffer and the start of the segments."""

    flatbuffer_end: int
    segment_base: int


async def read_ptd(source: ByteSource) -> dict[str, TensorData]:
    """Read the table of contents of a `.ptd`, without the data."""
    head = await source.read(0, min(HEAD_SIZE, source.size))
    end = parse_header(head, source.size).flatbuffer_end
    return parse_ptd(await source.read(0, end), source.size)


def parse_header(head: bytes, file_size: int) -> PtdHeader:
    identifier = head[IDENTIFIER_AT : IDENTIFIER_AT + 4]
    if identifier != b"FT01":
        kind = "a program (.pte)" if identifier[:2] == b"ET" else kind_of(head)[0]
        raise OtherFileError(kind, _ADVICE, IDENTIFIER_AT, wanted="a tensor data file (.ptd)")
    if len(head) < HEADER_AT + HEADER.size:
        raise FormatError("the file ends inside of its header", len(head))
    magic, length, offset, size, base, data_size = HEADER.unpack_from(head, HEADER_AT)
    if magic != b"FH01" or length < HEADER.size:
        raise FormatError(f"no valid header: magic {magic!r}, length {length}", HEADER_AT)
    if offset + size > file_size:
        raise FormatError(
            f"the flatbuffer ends at {offset + size}, the file at {file_size}; is it truncated?", 16
        )
    if base + data_size > file_size:
        raise FormatError(
            f"the segments end at {base + data_size}, the file at {file_size}; is it truncated?", 32
        )
    return PtdHeader(offset + size, base)


def parse_ptd(contents: bytes, file_size: int) -> dict[str, TensorData]:
    """Parse the file's bytes up to the end of the flatbuffer; further bytes are ignored."""
    header = parse_header(contents, file_size)
    root = FlatBuffer(contents[: header.flatbuffer_end]).root("FlatTensor")
    segments = read_segments(root, 1, header.segment_base, file_size)
    spans: dict[str, Span] = {}
    found: dict[str, TensorData] = {}
    for item in root.tables(2, "named_data"):
        key, span = read_named_data(item, segments, spans)
        spans[key] = span
        layout = item.table(2, "tensor_layout")
        found[key] = TensorData(span, _layout(layout, span) if layout else None)
    return found


def _layout(table: FlatTable, span: Span) -> TensorLayout:
    scalar_type = table.enum(0, "scalar_type", ScalarType)
    sizes, dim_order = read_shape(table, 1, 2, scalar_type)
    needed = byte_size(sizes, scalar_type.itemsize)
    if needed > span.size:
        message = f"the tensor has {needed} bytes, its segment only {span.size}"
        raise table.error(1, "sizes", message)
    return TensorLayout(scalar_type, sizes, dim_order)
