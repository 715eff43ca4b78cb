"""Reads the headers of GGUF and safetensors files: metadata, and the place of each tensor.

Files are untrusted, and downloads may be incomplete. So every count, length and offset is checked
against the file before use, and every failure is an ExportError that names the file and the field.
The tensors themselves are not read.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from webpte.engine.format.safetensors import BROKEN as _BROKEN
from webpte.engine.format.safetensors import parse_safetensors
from webpte_export.errors import ExportError

MAX_HEADER = 1 << 26  # bytes of metadata; a large vocabulary has 10 MB
MAX_ENTRIES = 1 << 16  # fields, and tensors
MAX_ITEMS = 1 << 22  # per list; the largest vocabulary in use has 260,000
MAX_DIMS = 4  # GGUF's limit

# The kinds of values in GGUF: number -> format of `struct`.
_SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_TEXT, _LIST = 8, 9
_MAX_NESTED = 4  # lists in lists

# The storage kinds of elements in GGUF: number -> (name, elements per block, bytes per block).
KINDS = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
}


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file.

    kind         the storage kind of its elements, such as "Q4_K" or "BF16"
    number       the kind's number in GGUF
    shape        sizes, the outermost first
    start, size  the place of its bytes
    """

    name: str
    kind: str
    number: int
    shape: tuple[int, ...]
    start: int
    size: int


@dataclass(frozen=True)
class GgufHeader:
    """Metadata by name, and the tensors."""

    fields: Mapping[str, Any]
    tensors: tuple[StoredTensor, ...]


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file to read from; errors of the system become ExportErrors."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise ExportError(f"{path} cannot be read: {error.strerror or error}.") from error


def read_gguf_header(path: Path) -> GgufHeader:
    with opened(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        return _gguf(_Cursor(file, size, path))


def read_safetensors_header(path: Path) -> tuple[StoredTensor, ...]:
    with opened(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        cursor = _Cursor(file, size, path)
        length = cursor.number("Q", "the header's length")
        header = cursor.take(length, "the header")
    found = parse_safetensors(header, size, str(path), ExportError)
    return tuple(
        StoredTensor(name, one.dtype, -1, one.shape, one.span.offset, one.span.size)
        for name, one in found.items()
    )


# GGUF


class _Cursor:
    """A position in a file, to read numbers and texts; errors name them by `what`."""

    def __init__(self, file: IO[bytes], size: int, path: Path) -> None:
        self._file = file
        self._size = size
        self._path = path
        self.at = 0

    @property
    def left(self) -> int:
        return self._size - self.at

    def fail(self, problem: str) -> ExportError:
        return ExportError(f"{self._path}: {problem} (at byte {self.at:,}).")

    def take(self, length: int, what: str) -> bytes:
        if length > self.left:
            raise self.fail(f"{what} has {length:,} bytes, but {self.left:,} are left: {_BROKEN}")
        if self.at + length > MAX_HEADER:
            raise self.fail(f"{what} goes beyond {MAX_HEADER:,} bytes of metadata: {_BROKEN}")
        data = self._file.read(length)
        if len(data) != length:
            raise self.fail(f"{what} could not be read: the file became shorter")
        self.at += length
        return data

    def number(self, form: str, what: str) -> Any:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}"), what))[0]

    def text(self, what: str) -> str:
        data = self.take(self.number("Q", f"the length of {what}"), what)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.fail(f"{what} is not UTF-8 ({error.reason}): {_BROKEN}") from error

    def count(self, form: str, what: str, most: int, each: int) -> int:
        """Read a number of items that take at least `each` bytes."""
        found = int(self.number(form, what))
        if found > most or found * each > self.left:
            raise self.fail(f"{what} is {found:,}, which is too many: {_BROKEN}")
        return found


def _gguf(cursor: _Cursor) -> GgufHeader:
    if cursor.take(4, "the start") != b"GGUF":
        raise cursor.fail("it does not start as GGUF does")
    version = cursor.number("I", "the version")
    if version not in (2, 3):
        swapped = " (its byte order is big-endian)" if not version & 0xFFFF else ""
        raise cursor.fail(f"GGUF of version {version}{swapped}; 2 and 3 are read")
    tensor_count = cursor.count("Q", "the number of tensors", MAX_ENTRIES, 24)
    field_count = cursor.count("Q", "the number of fields", MAX_ENTRIES, 13)
    fields: dict[str, Any] = {}
    for number in range(field_count):
        name = cursor.text(f"the name of field {number}")
        if name in fields:
            raise cursor.fail(f"there are two fields {name!r}")
        fields[name] = _value(cursor, cursor.number("I", f"the kind of {name!r}"), repr(name))
    infos = [_info(cursor, number) for number in range(tensor_count)]
    alignment = fields.get("general.alignment", 32)
    if type(alignment) is not int or not 0 < alignment <= 1 << 16 or alignment & alignment - 1:
        raise cursor.fail(f"general.alignment is {alignment!r}, which is not a power of two")
    begin = -(-cursor.at // alignment) * alignment
    tensors = tuple(_placed(cursor, begin, *info) for info in infos)
    if len({tensor.name for tensor in tensors}) < len(tensors):
        raise cursor.fail("there are two tensors of the same name")
    return GgufHeader(fields, tensors)


def _value(cursor: _Cursor, kind: int, what: str, nested: int = 0) -> Any:
    if kind in _SCALARS:
        return cursor.number(_SCALARS[kind], what)
    if kind == _TEXT:
        return cursor.text(what)
    if kind != _LIST or nested == _MAX_NESTED:
        raise cursor.fail(f"{what} is of kind {kind}, which is not known: {_BROKEN}")
    inner = cursor.number("I", f"the kind of {what}")
    form = _SCALARS.get(inner)
    each = struct.calcsize(f"<{form}") if form else 8
    count = cursor.count("Q", f"the length of {what}", MAX_ITEMS, each)
    if form:
        return list(struct.unpack(f"<{count}{form}", cursor.take(count * each, what)))
    return [_value(cursor, inner, f"{what}[{at}]", nested + 1) for at in range(count)]


def _info(cursor: _Cursor, number: int) -> tuple[str, tuple[int, ...], int, int]:
    name = cursor.text(f"the name of tensor {number}")
    dims = cursor.count("I", f"the number of dims of {name!r}", MAX_DIMS, 8)
    sizes = [int(cursor.number("Q", f"a size of {name!r}")) for _ in range(dims)]
    kind = cursor.number("I", f"the kind of {name!r}")
    return name, tuple(reversed(sizes)), kind, cursor.number("Q", f"the offset of {name!r}")


def _placed(
    cursor: _Cursor, begin: int, name: str, shape: tuple[int, ...], number: int, offset: int
) -> StoredTensor:
    if number not in KINDS:
        known = ", ".join(kind for kind, _, _ in KINDS.values())
        raise cursor.fail(f"tensor {name!r} is stored as kind {number}; known are {known}")
    kind, block, block_bytes = KINDS[number]
    if not shape or 0 in shape or shape[-1] % block:
        raise cursor.fail(f"tensor {name!r} is {list(shape)}, which {kind} cannot be: {_BROKEN}")
    size = math.prod(shape) // block * block_bytes
    end = begin + offset + size
    if end > cursor.at + cursor.left:
        raise cursor.fail(
            f"tensor {name!r} ends at byte {end:,}, but the file has "
            f"{cursor.at + cursor.left:,}: {_BROKEN}"
        )
    return StoredTensor(name, kind, number, shape, begin + offset, size)
