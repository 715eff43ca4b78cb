"""A FlatBuffer reader that checks every read.

The `flatbuffers` package has no verifier: in its `Table` an offset that points outside raises
`struct.error`, or wraps round to the end of the buffer. Its `Table` is also slower (13.2 ms of CPU
for the graph of web/samples/stories.pte, 6.9 ms here; CPython 3.11, 5 runs), so only its scalar
codecs are used. Here any bytes give a value or a `FormatError` with the absolute byte offset.

Two more things keep broken and hostile files cheap:

* Byte vectors (weights, delegate blobs) are returned as a `Span`, never copied.

* Tables may share parts: a vector of a thousand references to one big table is small in the file
and huge once read. So a buffer has a budget of bytes visited, a few times its own size; reading
stops with an error when it is spent.

None of the schemas read with this is recursive, so no depth limit is needed.

Layout, all little-endian: a table starts with an i32 that leads back to its vtable; the vtable is
u16 vtable bytes, u16 table bytes, then per slot the u16 offset of the field in the table, where 0
or a slot past the vtable's end means absent. References are u32, relative to their own position.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from flatbuffers import packer

from webpte.errors import FormatError

# Exporters share only vtables: reading their files visits every byte about once.
MAX_OVERLAP = 4
# Room for very small buffers, in which a few shared strings are a large part.
MIN_BUDGET = 1024
# The format's own limit: references to vtables are signed 32-bit numbers.
MAX_BUFFER = 1 << 31

IDENTIFIER_AT = 4
IDENTIFIER_END = 8

U8: struct.Struct = packer.uint8
U16: struct.Struct = packer.uint16
U32: struct.Struct = packer.uint32
U64: struct.Struct = packer.uint64
I8: struct.Struct = packer.int8
I16: struct.Struct = packer.int16
I32: struct.Struct = packer.int32
I64: struct.Struct = packer.int64
F32: struct.Struct = packer.float32
F64: struct.Struct = packer.float64

EnumT = TypeVar("EnumT", bound=IntEnum)


@dataclass(frozen=True, slots=True)
class Span:
    """A range of bytes: `size` bytes from `offset`."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size


class FlatBuffer:
    """A buffer's bytes, its offset in the file, and how many of its bytes were visited."""

    __slots__ = ("base", "budget", "data", "size", "visited")

    def __init__(self, data: bytes, base: int = 0) -> None:
        self.data = data
        self.base = base
        self.size = len(data)
        self.budget = MAX_OVERLAP * self.size + MIN_BUDGET
        self.visited = 0

    def root(self, name: str) -> FlatTable:
        """Return the root table; `name` is its name in error messages."""
        if self.size < IDENTIFIER_END:
            raise self.damaged(name, f"{self.size} bytes are too few for a flatbuffer", 0)
        if self.size > MAX_BUFFER:
            raise self.error(name, f"a flatbuffer of {self.size} bytes is over 2 GiB", 0)
        return FlatTable(self, self.follow(0, name), name)

    def error(self, where: str, message: str, at: int) -> FormatError:
        """Build an error; `at` counts from the start of this buffer."""
        return FormatError(f"{where}: {message}", self.base + at)

    def damaged(self, where: str, message: str, at: int) -> FormatError:
        """Build an error for bytes that no writer makes; such files are mostly incomplete."""
        return self.error(f"the file is damaged or cut off: {where}", message, at)

    def charge(self, amount: int, where: str, at: int) -> None:
        self.visited += amount
        if self.visited > self.budget:
            raise self.error(
                where,
                f"the contents overlap: {self.visited} bytes to read "
                f"in a flatbuffer of {self.size}",
                at,
            )

    def follow(self, at: int, where: str) -> int:
        """Return the target of the reference at `at`; its 4 bytes must lie inside."""
        step: int = U32.unpack_from(self.data, at)[0]
        target = at + step
        if step == 0 or target + 4 > self.size:
            raise self.damaged(where, f"a reference to byte {self.base + target} leads nowhere", at)
        return target


class FlatTable:
    """A single table. Fields are read by slot; the field's name is for error messages."""

    __slots__ = ("_size", "_vtable", "_vtable_size", "at", "buffer", "where")

    def __init__(self, buffer: FlatBuffer, at: int, where: str) -> None:
        self.buffer = buffer
        self.at = at
        self.where = where
        data = buffer.data
        vtable = at - I32.unpack_from(data, at)[0]
        if vtable < 0 or vtable + 4 > buffer.size:
            raise buffer.damaged(where, f"its vtable at byte {buffer.base + vtable} is outside", at)
        vtable_size = U16.unpack_from(data, vtable)[0]
        size = U16.unpack_from(data, vtable + 2)[0]
        if vtable_size < 4 or vtable_size % 2 or vtable + vtable_size > buffer.size:
            raise buffer.damaged(where, f"a vtable of {vtable_size} bytes is not possible", vtable)
        if size < 4 or at + size > buffer.size:
            raise buffer.damaged(where, f"a table of {size} bytes is not possible here", vtable + 2)
        self._vtable: int = vtable
        self._vtable_size: int = vtable_size
        self._size: int = size
        buffer.charge(4 + size, where, at)

    def error(self, slot: int, name: str, message: str) -> FormatError:
        """Build an error about a field: at the field, or at the table if the field is absent."""
        return self.buffer.error(f"{self.where}.{name}", message, self._field(slot, 0, name))

    def u8(self, slot: int, name: str, default: int = 0) -> int:
        return self._integer(slot, name, U8, default)

    def u32(self, slot: int, name: str, default: int = 0) -> int:
        return self._integer(slot, name, U32, default)

    def u64(self, slot: int, name: str, default: int = 0) -> int:
        return self._integer(slot, name, U64, default)

    def i8(self, slot: int, name: str, default: int = 0) -> int:
        return self._integer(slot, name, I8, default)

    def i16(self, slot: int, name: str, default: int = 0) -> int:
        return self._integer(slot, name, I16, default)

    def i32(self, slot: int, name: str, default: int = 0) -> int:
        return self._integer(slot, name, I32, default)

    def i64(self, slot: int, name: str, default: int = 0) -> int:
        return self._integer(slot, name, I64, default)

    def f64(self, slot: int, name: str) -> float:
        at = self._field(slot, 8, name)
        value: float = F64.unpack_from(self.buffer.data, at)[0] if at != self.at else 0.0
        return value

    def f32(self, slot: int, name: str) -> float:
        at = self._field(slot, 4, name)
        value: float = F32.unpack_from(self.buffer.data, at)[0] if at != self.at else 0.0
        return value

    def boolean(self, slot: int, name: str) -> bool:
        return self._integer(slot, name, U8, 0) != 0

    def enum(self, slot: int, name: str, kind: type[EnumT], default: int = 0) -> EnumT:
        """Read a one-byte enumeration; a number outside of `kind` is an error."""
        value = self._integer(slot, name, I8, default)
        try:
            return kind(value)
        except ValueError:
            raise self.error(slot, name, f"unknown {kind.__name__} {value}") from None

    def index(self, slot: int, name: str, limit: int, what: str) -> int:
        """Read an i32 that must be in `range(limit)`; errors name the counted things by `what`."""
        return self._in_range(slot, name, self.i32(slot, name), limit, what)

    def unsigned_index(self, slot: int, name: str, limit: int, what: str) -> int:
        """Read an u32 that must be in `range(limit)`; errors name the counted things by `what`."""
        return self._in_range(slot, name, self.u32(slot, name), limit, what)

    def text(self, slot: int, name: str) -> str:
        """Read a string; empty if absent."""
        start, count = self._vector(slot, 1, name)
        self.buffer.charge(count, self.where, start)
        try:
            return self.buffer.data[start : start + count].decode()
        except UnicodeDecodeError as error:
            raise self.buffer.damaged(
                f"{self.where}.{name}", "the string is not UTF-8", start + error.start
            ) from None

    def has(self, slot: int, name: str) -> bool:
        """Return whether a field is in the file, even if its value is the default."""
        return self._field(slot, 0, name) != self.at

    def span(self, slot: int, name: str) -> Span:
        """Return the span of a byte vector in the file; an absent vector is an empty span."""
        start, count = self._vector(slot, 1, name)
        return Span(self.buffer.base + start, count)

    def octets(self, slot: int, name: str) -> bytes:
        """Read the bytes of a short byte vector."""
        start, count = self._vector(slot, 1, name)
        self.buffer.charge(count, self.where, start)
        return self.buffer.data[start : start + count]

    def booleans(self, slot: int, name: str) -> tuple[bool, ...]:
        return tuple(byte != 0 for byte in self.octets(slot, name))

    def integers(self, slot: int, name: str, codec: struct.Struct) -> tuple[int, ...]:
        """Read a vector of integers; `codec` is U32, U64, I32 or I64."""
        start, count = self._vector(slot, codec.size, name)
        self.buffer.charge(count * codec.size, self.where, start)
        return struct.unpack_from(f"<{count}{codec.format[-1]}", self.buffer.data, start)

    def floats(self, slot: int, name: str, codec: struct.Struct = F64) -> tuple[float, ...]:
        """Read a vector of floats; `codec` is F32 or F64."""
        start, count = self._vector(slot, codec.size, name)
        self.buffer.charge(count * codec.size, self.where, start)
        return struct.unpack_from(f"<{count}{codec.format[-1]}", self.buffer.data, start)

    def indices(
        self, slot: int, name: str, codec: struct.Struct, limit: int, what: str, least: int = 0
    ) -> tuple[int, ...]:
        """Read a vector of integers that must all be in `range(least, limit)`."""
        items = self.integers(slot, name, codec)
        if items and (min(items) < least or max(items) >= limit):
            bad = next(i for i, item in enumerate(items) if not least <= item < limit)
            raise self.element_error(slot, name, codec, bad, _no_such(what, items[bad], limit))
        return items

    def element_error(
        self, slot: int, name: str, codec: struct.Struct, index: int, message: str
    ) -> FormatError:
        """Build an error about an element of a vector."""
        start, _ = self._vector(slot, codec.size, name)
        where = f"{self.where}.{name}[{index}]"
        return self.buffer.error(where, message, start + index * codec.size)

    def table(self, slot: int, name: str) -> FlatTable | None:
        at = self._field(slot, 4, name)
        if at == self.at:
            return None
        where = f"{self.where}.{name}"
        return FlatTable(self.buffer, self.buffer.follow(at, where), where)

    def required(self, slot: int, name: str) -> FlatTable:
        table = self.table(slot, name)
        if table is None:
            raise self.error(slot, name, "is missing")
        return table

    def count(self, slot: int, name: str) -> int:
        """Return the number of elements of a vector of tables."""
        return self._vector(slot, 4, name)[1]

    def tables(self, slot: int, name: str) -> Iterator[FlatTable]:
        """Yield the elements of a vector of tables, each checked when it is reached."""
        start, count = self._vector(slot, 4, name)
        self.buffer.charge(4 * count, self.where, start)
        for index in range(count):
            where = f"{self.where}.{name}[{index}]"
            yield FlatTable(self.buffer, self.buffer.follow(start + 4 * index, where), where)

    def union(self, slot: int, name: str) -> tuple[int, FlatTable]:
        """Return the tag and the table of a union, which takes `slot` and the slot after it.

        Messages use this table's name for the union's table, which is unnamed in the file.
        """
        tag = self.u8(slot, f"{name}_type")
        at = self._field(slot + 1, 4, name)
        if at == self.at:
            raise self.error(slot + 1, name, "is missing")
        return tag, FlatTable(self.buffer, self.buffer.follow(at, self.where), self.where)

    def _field(self, slot: int, width: int, name: str) -> int:
        """Return the position of a field, or the table's own position if the field is absent."""
        entry = 4 + 2 * slot
        if entry + 2 > self._vtable_size:
            return self.at
        entry += self._vtable
        offset: int = U16.unpack_from(self.buffer.data, entry)[0]
        if offset == 0:
            return self.at
        if offset < 4 or offset + width > self._size:
            raise self.buffer.damaged(
                f"{self.where}.{name}",
                f"offset {offset} is outside of its table of {self._size} bytes",
                entry,
            )
        return self.at + offset

    def _integer(self, slot: int, name: str, codec: struct.Struct, default: int) -> int:
        at = self._field(slot, codec.size, name)
        value: int = codec.unpack_from(self.buffer.data, at)[0] if at != self.at else default
        return value

    def _in_range(self, slot: int, name: str, value: int, limit: int, what: str) -> int:
        if not 0 <= value < limit:
            raise self.error(slot, name, _no_such(what, value, limit))
        return value

    def _vector(self, slot: int, width: int, name: str) -> tuple[int, int]:
        """Return the position of the first element and the count; an absent vector is empty."""
        at = self._field(slot, 4, name)
        if at == self.at:
            return at, 0
        where = f"{self.where}.{name}"
        head = self.buffer.follow(at, where)
        count: int = U32.unpack_from(self.buffer.data, head)[0]
        if count * width > self.buffer.size - head - 4:
            raise self.buffer.damaged(where, f"vector of {count} elements runs past the end", head)
        return head + 4, count


def _no_such(what: str, value: int, limit: int) -> str:
    return f"{what} {value} does not exist, there are {limit}"
