"""Where the bytes of a file are, without holding them.

A `.pte` can be larger than the whole 32-bit heap of Pyodide. So the file stays where it is (a JS
`Blob`, a file on disk), and Python reads only the parts it has to parse. Constants go from the
source to the GPU without passing through here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from webpte.errors import SourceError

LOCAL = (
    "local:"  # begins the addresses of files that were added to the library, which no server has
)


class ByteSource(Protocol):
    """Random access to a file. `read` returns exactly `length` bytes or raises SourceError."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int: ...

    async def read(self, offset: int, length: int) -> bytes: ...


def check_range(source: ByteSource, offset: int, length: int) -> None:
    """Every `read` starts with this, so that no implementation can return fewer bytes."""
    if offset < 0 or length < 0 or offset + length > source.size:
        raise SourceError(
            f"{source.name}: bytes {offset} to {offset + length} were asked for, "
            f"but the file has {source.size}"
        )


class BytesSource:
    """A file that is in memory already."""

    def __init__(self, data: bytes | bytearray | memoryview, name: str = "bytes") -> None:
        self._data = memoryview(data).cast("B")
        self.name = name

    @property
    def size(self) -> int:
        return len(self._data)

    async def read(self, offset: int, length: int) -> bytes:
        return bytes(self.view(offset, length))

    def view(self, offset: int, length: int) -> memoryview:
        """The same bytes, not copied."""
        check_range(self, offset, length)
        return self._data[offset : offset + length]


class FileSource:
    """A file on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mapped: memoryview | None = None  # on first use
        self.name = path.name
        try:
            self._size = path.stat().st_size
        except OSError as error:
            raise SourceError(f"{path}: {error.strerror}") from error

    @property
    def size(self) -> int:
        return self._size

    async def read(self, offset: int, length: int) -> bytes:
        check_range(self, offset, length)
        with self._path.open("rb") as file:
            file.seek(offset)
            data = file.read(length)
        if len(data) != length:
            raise SourceError(f"{self.name}: the file became shorter while it was read")
        return data

    def view(self, offset: int, length: int) -> memoryview:
        """The bytes where the system keeps them: nothing is read before they are looked at."""
        check_range(self, offset, length)
        if self._path.stat().st_size != self._size:  # looking at what is gone ends the process
            raise SourceError(f"{self.name}: the file changed its size after it was opened")
        if self._mapped is None:
            import mmap  # not everywhere

            with self._path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self._size else b""
            self._mapped = memoryview(mapped)
        return self._mapped[offset : offset + length]


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
        """The same, not copied if the source can show its bytes."""
        if isinstance(self.source, BytesSource | FileSource) and offset + length <= self.size:
            return self.source.view(self.offset + offset, length)
        return await self.read(offset, length)

    def head(self, size: int) -> Region:
        """The first `size` bytes of this part."""
        return Region(self.source, self.offset, size)
