"""Sources of a file's bytes, which do not hold the whole file.

A `.pte` can be larger than the whole 32-bit heap of Pyodide. So the file stays where it is (a JS
`Blob`, a file on disk), and Python reads only the parts it has to parse. Constants go from the
source to the GPU without passing through Python.
"""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, runtime_checkable

import numpy as np

from webpte.errors import FormatError, GraphError, SourceError, UnsupportedError, retold

LOCAL = (
    "local:"  # prefix of the addresses of files that were added to the library, without a server
)


def fetch_problem(address: str, reason: str) -> str:
    """Return the message for a file that could not be fetched.

    CORS can only be the reason if there was no answer: an answer, such as 404, was readable.
    """
    if "the server answered" in reason:
        return f"{address}: {reason}; is the address right?"
    return (
        f"{address}: {reason}; is the address right, and does its server allow this page to read "
        "it (CORS)?"
    )


@runtime_checkable
class ByteSource(Protocol):
    """Random access to a file. `read` returns exactly `length` bytes or raises SourceError.

    Equal sources have the same bytes, so they can share GPU buffers.
    """

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int: ...

    async def read(self, offset: int, length: int) -> bytes: ...


def check_range(source: ByteSource, offset: int, length: int) -> None:
    """Raise unless the bytes are in the source; every `read` starts with this check."""
    if offset < 0 or length < 0 or offset + length > source.size:
        raise SourceError(
            f"{source.name}: bytes {offset} to {offset + length} were asked for, "
            f"but the file has {source.size}"
        )


@contextmanager
def naming(source: ByteSource) -> Iterator[None]:
    """Name a file in errors about its contents that are raised inside.

    Errors of reading the file name it already.
    """
    try:
        yield
    except (FormatError, GraphError, UnsupportedError) as error:
        raise retold(error, f"{source.name}: {error}") from error


class BytesSource:
    """A file that is already in memory."""

    def __init__(self, data: bytes | bytearray | memoryview, name: str = "bytes") -> None:
        self._data = memoryview(data).cast("B")
        self.name = name

    @property
    def is_unchanged(self) -> bool:
        """Whether the bytes are certainly unchanged since they were given."""
        return isinstance(self._data.obj, bytes)

    @property
    def _contents(self) -> object:
        """The object with the bytes, if nobody can change them; else this source."""
        return self._data.obj if self.is_unchanged else self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BytesSource):
            return NotImplemented
        return self._contents is other._contents and self.size == other.size

    def __hash__(self) -> int:
        return id(self._contents)

    @property
    def size(self) -> int:
        return len(self._data)

    async def read(self, offset: int, length: int) -> bytes:
        return bytes(self.view(offset, length))

    def view(self, offset: int, length: int) -> memoryview:
        """Return the bytes without copying them."""
        check_range(self, offset, length)
        return self._data[offset : offset + length]


class FileSource:
    """A file on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mapped: memoryview | None = None  # on first use
        self.name = path.name
        with self._opened() as file:
            self._size = file.seek(0, io.SEEK_END)
            self._version = _version_of(file)

    @property
    def is_unchanged(self) -> bool:
        """Whether the file is certainly unchanged since it was opened."""
        try:
            with self._opened() as file:
                return _version_of(file) == self._version
        except SourceError:
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileSource) and self._version == other._version

    def __hash__(self) -> int:
        return hash(self._version)

    @property
    def size(self) -> int:
        return self._size

    async def read(self, offset: int, length: int) -> bytes:
        check_range(self, offset, length)
        with self._opened() as file:
            file.seek(offset)
            data = file.read(length)
        if len(data) != length:
            raise SourceError(f"{self.name}: the file became shorter while it was read")
        return data

    def view(self, offset: int, length: int) -> memoryview:
        """Return memory-mapped bytes: the system reads them when they are accessed."""
        check_range(self, offset, length)
        with self._opened() as file:
            if file.seek(0, io.SEEK_END) != self._size:  # reading beyond the end kills the process
                raise SourceError(f"{self.name}: the file changed its size after it was opened")
            if self._mapped is None:
                import mmap  # not everywhere

                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self._size else b""
                self._mapped = memoryview(mapped)
        return self._mapped[offset : offset + length]

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        """The open file; errors of the system inside become a SourceError."""
        try:
            with self._path.open("rb") as file:
                yield file
        except (OSError, ValueError) as error:  # a ValueError: a name with a NUL
            raise _not_read(self._path, error) from error


def _version_of(file: IO[bytes]) -> tuple[int, ...]:
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def read_whole(path: Path) -> bytes:
    """Read a file on disk; raise SourceError if that fails."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise _not_read(path, error) from error


def _not_read(path: Path, error: OSError | ValueError) -> SourceError:
    if isinstance(error, IsADirectoryError):
        return SourceError(f"{path}: it is a folder; name the file in it")
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    named = str(path) if str(path).isprintable() else repr(str(path))
    return SourceError(f"{named}: {why}")


@dataclass(frozen=True)
class Region:
    """A part of a source: `size` bytes from `offset`."""

    source: ByteSource
    offset: int
    size: int

    async def read(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise SourceError(
                f"{self.source.name}: bytes {offset} to {offset + length} of a part "
                f"that has {self.size}"
            )
        return await self.source.read(self.offset + offset, length)

    async def view(self, offset: int, length: int) -> bytes | memoryview:
        """Return the bytes, without copying them if the source allows it."""
        if isinstance(self.source, BytesSource | FileSource) and offset + length <= self.size:
            return self.source.view(self.offset + offset, length)
        return await self.read(offset, length)

    def head(self, size: int) -> Region:
        """Return the first `size` bytes of this part."""
        return Region(self.source, self.offset, size)

    def part(self, offset: int, size: int) -> Region:
        """Return `size` bytes from `offset` of this part."""
        return Region(self.source, self.offset + offset, size)


def _is_unchanged(source: ByteSource) -> bool:
    return isinstance(source, BytesSource | FileSource) and source.is_unchanged


_COMPARED_BYTES = 1 << 26  # at once, while nothing else runs


async def equal_bytes(one: Region, other: Region) -> bool:
    """Return whether two parts have the same bytes, unchanged since they were opened.

    The result is False if a comparison would need the network.
    """
    sources = one.source, other.source
    if one.size != other.size or not all(_is_unchanged(source) for source in sources):
        return False
    try:
        for start in range(0, one.size, _COMPARED_BYTES):
            length = min(_COMPARED_BYTES, one.size - start)
            parts = [await part.view(start, length) for part in (one, other)]
            first, second = (np.frombuffer(part, np.uint8) for part in parts)
            if not np.array_equal(first, second):
                return False
            await asyncio.sleep(0)
    except SourceError:  # the next read of these bytes raises the error
        return False
    return True


@dataclass(frozen=True)
class ColumnSource:
    """Columns of a matrix in a file, as if they were a separate file, row after row.

    Sources of the same columns are equal, so they share a buffer.
    """

    matrix: Region
    row_bytes: int  # whole row of the matrix
    first: int  # byte of a row
    count: int  # bytes of a row that belong to it

    @property
    def name(self) -> str:
        return self.matrix.source.name

    @property
    def size(self) -> int:
        return self.matrix.size // self.row_bytes * self.count

    async def read(self, offset: int, length: int) -> bytes:
        check_range(self, offset, length)
        if not length:
            return b""
        first, last = offset // self.count, (offset + length - 1) // self.count
        rows = await self.matrix.view(first * self.row_bytes, (last - first + 1) * self.row_bytes)
        table = np.frombuffer(rows, np.uint8).reshape(-1, self.row_bytes)
        found = table[:, self.first : self.first + self.count].tobytes()
        start = offset - first * self.count
        return found[start : start + length]


_STEP = 1 << 23  # bytes that are converted at once


@dataclass(frozen=True)
class ConvertedSource:
    """Rows of a part of a file, each converted to a fixed size, as if they were a file."""

    rows: Region
    file_bytes: int  # per row in the file
    row_bytes: int  # per converted row
    convert: Callable[[bytes | memoryview], bytes]

    @property
    def name(self) -> str:
        return self.rows.source.name

    @property
    def size(self) -> int:
        return self.rows.size // self.file_bytes * self.row_bytes

    async def read(self, offset: int, length: int) -> bytes:
        check_range(self, offset, length)
        first, last = offset // self.row_bytes, -(-(offset + length) // self.row_bytes)
        step, found = max(1, _STEP // self.file_bytes), bytearray()
        for row in range(first, last, step):
            count = min(step, last - row)
            data = await self.rows.view(row * self.file_bytes, count * self.file_bytes)
            found += self.convert(data)
        start = offset - first * self.row_bytes
        return bytes(memoryview(found)[start : start + length])
