"""The interface between the page and the browser, small enough to be faked in tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from page.shared.cards.cards import Card
from page.shared.inputs.photos import Photo
from page.shared.npy import Array
from webpte import DeviceInfo, Download, Options
from webpte.engine.open.library import Entry, LibraryFile, Usage

Message = Mapping[str, Any]  # what someone did: "act", and what belongs to it
Progress = Callable[[str, int, int], None]  # stage, done, total


class FilesError(ValueError):
    """Files that were chosen or dropped, and that the page cannot take; the message says why."""


@dataclass(frozen=True)
class Source:
    """A file: its name, its size, and the object that the engine loads it from."""

    name: str
    size: int
    data: Any
    extra: tuple[Any, ...] = ()  # the .ptd files that belong to it
    address: str = ""  # where it was fetched from, as it was given
    card: Card | None = None  # of the gallery, if it was opened there
    file: LibraryFile | None = None  # `data`, if the library has it or could
    max_context: int | None = None  # tokens that someone chose, of a language model
    kv_cache: str | None = None  # "f16" or "int8", where someone chose it
    int8_products: bool = False  # someone chose prompts that are rounded to 8 bits
    task: str = ""  # of `webpte.tasks`, as its manifest or card says; a card may describe it
    beside: Mapping[str, Any] = field(default_factory=dict)  # files dropped with it, by name
    places: Mapping[str, str] = field(default_factory=dict)  # addresses of a repository's, by name
    is_joined: bool = False  # `data` and `extra` are the parts of one model

    @property
    def key(self) -> str:
        """The address, or a file's name: the key of a program's kept data."""
        return self.address or self.name

    @property
    def options(self) -> Options | None:
        """The options of `webpte.load` that someone chose; None for the usual options."""
        return Options(int8_products=True) if self.int8_products else None


@dataclass(frozen=True)
class OpenProgram:
    """A program that a tab has open; `key` is its address, or a file's name."""

    name: str
    key: str
    nbytes: int  # of GPU memory


class Library(Protocol):
    """The library of files in the browser; see `webpte.library`."""

    async def entries(self) -> list[Entry]: ...

    async def usage(self) -> Usage: ...

    async def add(
        self,
        file: Any,
        name: str,
        *,
        parts: Sequence[str] = (),
        progress: Progress | None = None,
        replace: bool = True,
    ) -> str: ...

    async def delete(self, address: str) -> None: ...

    async def persist(self) -> bool: ...


class Browser(Protocol):
    """Everything that the page needs from the browser."""

    @property
    def library(self) -> Library: ...

    @property
    def unkept(self) -> set[str]:
        """Origins that a link named: their files are opened, but not kept until someone agrees."""

    def absolute(self, url: str) -> str:
        """Return an absolute address, as the library uses it. Raises SourceError."""

    def show(self, **changes: object) -> None:
        """Change the page, by the functions of these names in `events.js`."""

    def together(self) -> AbstractContextManager[None]:
        """Show at once all that is shown in this context; not for work that awaits."""

    def interruptible(self) -> AbstractContextManager[None]:
        """Let the page interrupt code that never awaits with a KeyboardInterrupt, in this context.
        Where the page has no shared memory, nothing interrupts it."""

    async def adapter(self) -> DeviceInfo | str:
        """Return the adapter, or why there is none: "missing" or "no adapter"."""

    def source(self, file: Any) -> Source: ...

    async def fetch(
        self, url: str, progress: Progress, download: Download | None = None, sha256: str = ""
    ) -> Source:
        """Fetch a file from the library, where it may be found by its hash, or from its server.

        The caller keeps or leaves its `file`."""

    async def fetch_bytes(self, url: str) -> bytes:
        """Fetch a small file as a whole and keep it. Raises SourceError."""

    async def read(self, file: Any) -> bytes: ...

    def file_of(self, data: bytes | Sequence[bytes], name: str) -> Any:
        """Return bytes, or parts one after the other, as a file, which `source`, `read` and `hear`
        take."""

    async def decode(self, file: Any, largest: int) -> Photo:
        """Decode a picture from a file or its bytes, no side over `largest`. Raises ValueError."""

    def frame(self, bitmap: Any) -> Photo:
        """Return a picture of the camera, as the page sends it."""

    def photo(self, pixels: Array) -> Photo:
        """Return pixels (height, width, 3) uint8 as a picture."""

    async def hear(self, file: Any, rate: int, longest: int) -> Array:
        """Decode a sound to (samples,) float32: one channel, `rate` samples per second, at most
        `longest` seconds. `file` is what `source` takes. Raises ValueError."""

    def picture_url(self, pixels: Array) -> str:
        """Return an address for pixels (height, width, 3) uint8, valid until many others came."""

    async def png(self, pixels: Array) -> bytes:
        """Encode (height, width, 3) uint8 as PNG."""

    async def jpeg(self, pixels: Array) -> bytes:
        """Encode (height, width, 3) uint8 as JPEG, in the browser's usual quality."""

    def download_url(self, data: bytes) -> str: ...

    async def hold(self, program: OpenProgram | None) -> None:
        """Announce to other tabs the program that this tab has open."""

    async def open_elsewhere(self) -> list[OpenProgram]:
        """Return the programs that other tabs have open, the largest first."""
