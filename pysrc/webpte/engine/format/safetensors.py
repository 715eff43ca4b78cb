"""Reader of `.safetensors` headers: a length, JSON with each tensor's place, then the tensors.

Files are untrusted: every size is checked against the file. The caller chooses the error that is
raised (`fail`), as in `json_reader`. The tensors themselves are not read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct

from webpte.engine.files.json_reader import Fail, Table, parse_table
from webpte.engine.files.source import ByteSource
from webpte.engine.format.flat import Span
from webpte.errors import FormatError

LENGTH = Struct("<Q")
MAX_HEADER = 1 << 26
FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}  # bytes of an element of weights
BYTES = {"U8": 1}
BROKEN = "the file is damaged or incomplete; download it again"


@dataclass(frozen=True)
class SafeTensor:
    """The place of a tensor in its file; `dtype` is in FLOATS, or was allowed by the caller."""

    dtype: str
    shape: tuple[int, ...]
    span: Span


async def read_safetensors(source: ByteSource) -> Mapping[str, SafeTensor]:
    """Read the header of a file; raise FormatError for other files."""

    header = await read_header(source, at_start)
    return parse_safetensors(header, source.size, source.name, at_start)


def at_start(message: str) -> FormatError:
    """Return the error for a wrong header: the recognized kind of file, or bad bytes."""
    return FormatError(message, 0)


async def read_header(source: ByteSource, fail: Fail) -> bytes:
    """Read the JSON of a file's header."""
    if source.size < LENGTH.size:
        raise fail(f"{source.name} is not a safetensors file: it has {source.size} bytes")
    (length,) = LENGTH.unpack(await source.read(0, LENGTH.size))
    if length > min(MAX_HEADER, source.size - LENGTH.size):
        raise fail(f"{source.name} is not a safetensors file, or damaged: its header is too long")
    return await source.read(LENGTH.size, length)


def parse_safetensors(
    header: bytes, file_size: int, name: str, fail: Fail, kinds: Mapping[str, int] = FLOATS
) -> dict[str, SafeTensor]:
    """Parse the JSON of a header, and check that the tensors are in a file of this size.

    kinds  the allowed dtypes, with the bytes per element
    """
    table = parse_table(header, f"{name}: the header", fail)
    begin = LENGTH.size + len(header)
    names = [key for key in table.content if key != "__metadata__"]
    return {key: _tensor(table.table(key), begin, file_size, fail, kinds) for key in names}


def _tensor(
    table: Table, begin: int, file_size: int, fail: Fail, kinds: Mapping[str, int]
) -> SafeTensor:
    dtype, shape, offsets = table.text("dtype"), table.listed("shape"), table.listed("data_offsets")
    where, room = table.name, file_size - begin
    if dtype not in kinds:
        raise fail(f"{where}: dtype {dtype!r} is not one of {', '.join(kinds)}.")
    for numbers, what in ((shape, "shape"), (offsets, "data_offsets")):
        if not all(type(one) is int and 0 <= one < 1 << 48 for one in numbers) or len(numbers) > 8:
            raise fail(f"{where}: {what} has an item that is not a size: {BROKEN}.")
    size = math.prod(shape) * kinds[dtype]
    if len(offsets) != 2 or offsets[1] - offsets[0] != size or offsets[1] > room:
        raise fail(
            f"{where}: {dtype} {shape} takes {size:,} bytes, data_offsets are {offsets}, and "
            f"{room:,} bytes follow the header: {BROKEN}."
        )
    return SafeTensor(dtype, tuple(shape), Span(begin + offsets[0], size))
