"""The checked reader, on a flatbuffer written by hand so that every offset is known."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from enum import IntEnum

import pytest

from support.write.pte_writer import Node, Scalar, Vector, write_flatbuffer
from webpte.engine.format.flat import I32, MAX_OVERLAP, MIN_BUDGET, U32, FlatBuffer, FlatTable, Span
from webpte.errors import FormatError

# byte  0  root -> 20        8  vtable: 10 bytes, table 12 bytes, slots at 4, 8, absent
#       4  identifier       20  table: vtable 12 bytes back; 24 reference -> 32; 28 the number 7
#                           32  vector of 3 bytes
PLAIN = struct.pack("<I4s5H2xiIiI4s", 20, b"TEST", 10, 12, 4, 8, 0, 12, 8, 7, 3, b"abc")
BASE = 1000


def root(data: bytes) -> FlatTable:
    return FlatBuffer(data, BASE).root("Root")


def patched(at: int, form: str, value: int | bytes) -> bytes:
    data = bytearray(PLAIN)
    struct.pack_into(form, data, at, value)
    return bytes(data)


def test_reads_what_is_there_and_defaults_for_the_rest() -> None:
    table = root(PLAIN)
    assert table.text(0, "items") == "abc"
    assert table.octets(0, "items") == b"abc"
    assert table.i32(1, "number") == 7
    assert table.i32(2, "absent", -5) == -5
    assert table.i32(99, "beyond the vtable") == 0
    assert table.text(2, "absent") == ""
    assert table.integers(2, "absent", I32) == ()
    assert table.floats(2, "absent") == ()
    assert table.f64(2, "absent") == 0.0
    assert table.table(2, "absent") is None
    assert list(table.tables(2, "absent")) == []


def test_a_byte_vector_is_a_span_of_the_file_and_costs_nothing() -> None:
    table = root(PLAIN)
    before = table.buffer.visited
    assert table.span(0, "items") == Span(BASE + 36, 3)
    assert table.buffer.visited == before


def text(data: bytes) -> object:
    return root(data).text(0, "items")


def number(data: bytes) -> object:
    return root(data).i32(1, "number")


def words(data: bytes) -> object:
    return root(data).integers(0, "items", U32)


def child(data: bytes) -> object:
    return root(data).required(2, "child")


def index(data: bytes) -> object:
    return root(data).index(1, "number", 7, "value")


DAMAGED = "the file is damaged or cut off: "


@pytest.mark.parametrize(
    ("data", "read", "message", "offset"),
    [
        (b"", root, "Root: 0 bytes are too few for a flatbuffer", 0),
        (PLAIN[:7], root, "Root: 7 bytes are too few for a flatbuffer", 0),
        (patched(0, "<I", 37), root, "Root: a reference to byte 1037 leads nowhere", 0),
        (patched(0, "<I", 0xFFFFFFFF), root, "Root: a reference to byte 4294968295 leads", 0),
        (patched(0, "<I", 0), root, "Root: a reference to byte 1000 leads nowhere", 0),
        (patched(20, "<i", 21), root, "Root: its vtable at byte 999 is outside", 20),
        (patched(20, "<i", -17), root, "Root: its vtable at byte 1037 is outside", 20),
        (patched(20, "<i", -(1 << 31)), root, "Root: its vtable at byte 2147484668 is outside", 20),
        (patched(8, "<H", 3), root, "Root: a vtable of 3 bytes is not possible", 8),
        (patched(8, "<H", 9), root, "Root: a vtable of 9 bytes is not possible", 8),
        (patched(8, "<H", 34), root, "Root: a vtable of 34 bytes is not possible", 8),
        (patched(10, "<H", 3), root, "Root: a table of 3 bytes is not possible here", 10),
        (patched(10, "<H", 21), root, "Root: a table of 21 bytes is not possible here", 10),
        (patched(14, "<H", 9), number, "Root.number: offset 9 is outside of its table of 12", 14),
        (patched(14, "<H", 3), number, "Root.number: offset 3 is outside of its table of 12", 14),
        (patched(24, "<I", 13), text, "Root.items: a reference to byte 1037 leads nowhere", 24),
        (patched(32, "<I", 5), text, "Root.items: vector of 5 elements runs past the end", 32),
        (patched(32, "<I", 2), words, "Root.items: vector of 2 elements runs past the end", 32),
        (
            patched(32, "<I", 0xFFFFFFFF),
            words,
            "Root.items: vector of 4294967295 elements runs past the end",
            32,
        ),
        (patched(37, "<B", 0xFF), text, "Root.items: the string is not UTF-8", 37),
        (PLAIN, child, "Root.child: is missing", 20),
        (PLAIN, index, "Root.number: value 7 does not exist, there are 7", 28),
        (patched(28, "<i", -1), index, "Root.number: value -1 does not exist, there are 7", 28),
    ],
)
def test_errors_name_the_field_and_the_byte(
    data: bytes, read: Callable[[bytes], object], message: str, offset: int
) -> None:
    with pytest.raises(FormatError) as raised:
        read(data)
    assert raised.value.offset == BASE + offset
    assert str(raised.value).removeprefix(DAMAGED).startswith(message)
    assert str(raised.value).startswith(DAMAGED) == (read not in (child, index))
    assert str(raised.value).endswith(f"(at byte {BASE + offset})")


def test_an_index_in_a_vector_is_reported_at_its_own_byte() -> None:
    data = write_flatbuffer(Node({0: Vector("i32", [0, 1, -1, 9])}), b"TEST")
    table = FlatBuffer(data).root("Root")
    assert table.indices(0, "ids", I32, 10, "value", least=-1) == (0, 1, -1, 9)
    with pytest.raises(FormatError, match=r"Root.ids\[2\]: value -1 does not exist") as raised:
        table.indices(0, "ids", I32, 10, "value")
    assert data[raised.value.offset :][:4] == b"\xff\xff\xff\xff"


def test_unknown_enumeration_values_are_errors() -> None:
    class Colour(IntEnum):
        RED = 0
        BLUE = 2

    table = FlatBuffer(write_flatbuffer(Node({0: Scalar("i8", 1)}), b"TEST")).root("Root")
    assert table.enum(1, "absent", Colour) is Colour.RED
    with pytest.raises(FormatError, match=r"Root.colour: unknown Colour 1 \(at byte"):
        table.enum(0, "colour", Colour)


def test_contents_that_overlap_are_cut_off() -> None:
    """A thousand references to one table with a thousand numbers: 8 kB that read as 4 MB."""
    count = 1000
    element = write_flatbuffer(Node({0: Vector("i32", range(count))}), b"TEST")
    (big,) = struct.unpack_from("<I", element)
    # References lead forward only, so the big table has to stand after the vector.
    head = struct.pack("<I4s3H2xiI", 16, b"TEST", 6, 8, 4, 8, 4)
    vector = struct.pack("<I", count) + b"".join(
        struct.pack("<I", 4 * (count - i) + big) for i in range(count)
    )
    buffer = FlatBuffer(head + vector + element)
    tables = buffer.root("Root").tables(0, "items")
    with pytest.raises(FormatError, match="the contents overlap"):
        sum(len(table.integers(0, "numbers", I32)) for table in tables)
    assert buffer.visited <= MAX_OVERLAP * buffer.size + MIN_BUDGET + 4 * count


def test_every_truncation_and_every_byte_value_gives_a_result_or_a_format_error() -> None:
    variants = [PLAIN[:n] for n in range(len(PLAIN))]
    variants += [patched(at, "<B", value) for at in range(len(PLAIN)) for value in range(256)]
    for data in variants:
        for read in (text, number, words, index):
            with contextlib.suppress(FormatError):
                read(data)
