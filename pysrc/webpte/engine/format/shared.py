"""Common parts of `.pte` and `.ptd` files: scalar types, tensor extents, segments."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from webpte.engine.format.flat import I32, FlatTable, Span

MAX_RANK = 64
# JS numbers are exact integers below this, and no file or buffer comes near it.
MAX_TENSOR_BYTES = 1 << 53


class ScalarType(IntEnum):
    """Element types of host tensors, numbered as PyTorch does."""

    BYTE = 0
    CHAR = 1
    SHORT = 2
    INT = 3
    LONG = 4
    HALF = 5
    FLOAT = 6
    DOUBLE = 7
    COMPLEXHALF = 8
    COMPLEXFLOAT = 9
    COMPLEXDOUBLE = 10
    BOOL = 11
    QINT8 = 12
    QUINT8 = 13
    QINT32 = 14
    BFLOAT16 = 15
    QUINT4X2 = 16
    QUINT2X4 = 17
    BITS1X8 = 18
    BITS2X4 = 19
    BITS4X2 = 20
    BITS8 = 21
    BITS16 = 22
    FLOAT8E5M2 = 23
    FLOAT8E4M3FN = 24
    FLOAT8E5M2FNUZ = 25
    FLOAT8E4M3FNUZ = 26
    UINT16 = 27
    UINT32 = 28
    UINT64 = 29

    @property
    def itemsize(self) -> int:
        """Bytes per element (the packed types count one element per byte)."""
        return _WIDE.get(self, 1)


_WIDE = {
    ScalarType.SHORT: 2,
    ScalarType.INT: 4,
    ScalarType.LONG: 8,
    ScalarType.HALF: 2,
    ScalarType.FLOAT: 4,
    ScalarType.DOUBLE: 8,
    ScalarType.COMPLEXHALF: 4,
    ScalarType.COMPLEXFLOAT: 8,
    ScalarType.COMPLEXDOUBLE: 16,
    ScalarType.QINT32: 4,
    ScalarType.BFLOAT16: 2,
    ScalarType.BITS16: 2,
    ScalarType.UINT16: 2,
    ScalarType.UINT32: 4,
    ScalarType.UINT64: 8,
}


def byte_size(sizes: tuple[int, ...], itemsize: int) -> int:
    """Return the bytes of a dense tensor, at most MAX_TENSOR_BYTES.

    The product stops early: 64 dims of 4e9 cost no more than two.
    """
    if 0 in sizes:
        return 0
    total = itemsize
    for size in sizes:
        total *= size
        if total >= MAX_TENSOR_BYTES:
            return MAX_TENSOR_BYTES
    return total


def check_extent(
    table: FlatTable, slot: int, name: str, sizes: tuple[int, ...], itemsize: int
) -> None:
    """Raise for a rank or a byte size that no real tensor has."""
    if len(sizes) > MAX_RANK:
        raise table.error(slot, name, f"rank {len(sizes)} is over {MAX_RANK}")
    # NumPy multiplies the other dims of an empty tensor, too.
    if byte_size(tuple(filter(None, sizes)), itemsize) >= MAX_TENSOR_BYTES:
        raise table.error(slot, name, "the tensor would have 2**53 bytes or more")


def read_shape(
    table: FlatTable, sizes_slot: int, order_slot: int, scalar_type: ScalarType
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Read and check `sizes` and `dim_order` (outermost dim first) of a host tensor."""
    sizes = table.integers(sizes_slot, "sizes", I32)
    for dim, size in enumerate(sizes):
        if size < 0:
            raise table.element_error(sizes_slot, "sizes", I32, dim, f"size {size} is negative")
    check_extent(table, sizes_slot, "sizes", sizes, scalar_type.itemsize)
    dim_order = tuple(table.octets(order_slot, "dim_order"))
    if sorted(dim_order) != list(range(len(sizes))):
        listed = ", ".join(map(str, dim_order[:MAX_RANK]))
        raise table.error(order_slot, "dim_order", f"[{listed}] does not order {len(sizes)} dims")
    return sizes, dim_order


def read_segments(root: FlatTable, slot: int, base: int, file_size: int) -> tuple[Span, ...]:
    """Read the segment table as absolute spans. A `base` of 0 means a file without segments."""
    return tuple(_segment(item, base, file_size) for item in root.tables(slot, "segments"))


def _segment(item: FlatTable, base: int, file_size: int) -> Span:
    span = Span(base + item.u64(0, "offset"), item.u64(1, "size"))
    # Exporters list an empty segment even without a header and data.
    if base == 0 and span.size:
        raise item.error(1, "size", "the segment has data, but there is no header with its start")
    if span.end > file_size:
        raise item.error(
            1,
            "size",
            f"bytes {span.offset} to {span.end} are not in a file of {file_size}; is it truncated?",
        )
    return span


def read_named_data(
    item: FlatTable, segments: tuple[Span, ...], known: Mapping[str, Span]
) -> tuple[str, Span]:
    """Read a NamedData entry: key and span. Several keys may share a segment, not vice versa."""
    key = item.text(0, "key")
    span = segments[item.unsigned_index(1, "segment_index", len(segments), "segment")]
    if known.get(key, span) != span:
        raise item.error(0, "key", f"{shown(key)} stands for two different segments")
    return key, span


def shown(text: str) -> str:
    """Return a string of the file, shortened for a message."""
    return repr(text if len(text) <= 80 else text[:77] + "...")
