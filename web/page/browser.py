"""The interface between the page and the browser, small enough to be faked in tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from page.cards.cards import Card
from page.npy import Array
from webpte import DeviceInfo
from webpte.library import Entry, LibraryFile, Usage

Message = Mapping[str, Any]  # what someone did: "act", and what belongs to it
Progress = Callable[[str, int, int], None]  # stage, done, total


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


class Library(Protocol):
    """The library of files in the browser; see `webpte.library`."""

    async def entries(self) -> list[Entry]: ...

    async def usage(self) -> Usage: ...

    async def add(
        self, file: Any, name: str, *, parts: Sequence[str] = (), progress: Progress | None = None
    ) -> str: ...

    async def delete(self, address: str) -> None: ...

    async def persist(self) -> bool: ...


class Browser(Protocol):
    """Everything that the page needs from the browser."""

    @property
    def library(self) -> Library: ...

    def absolute(self, url: str) -> str:
        """Return an absolute address, as the library uses it."""

    def show(self, **changes: object) -> None:
        """Change the page, by the functions of these names in `events.js`."""

    def together(self) -> AbstractContextManager[None]:
        """Show at once all that is shown in this context; not for work that awaits."""

    async def adapter(self) -> DeviceInfo | str:
        """Return the adapter, or why there is none: "missing" or "no adapter"."""

    def source(self, file: Any) -> Source: ...

    async def fetch(self, url: str, progress: Progress) -> Source:
        """Fetch a file from the library or its server; the caller keeps or leaves its `file`."""

    async def fetch_bytes(self, url: str) -> bytes:
        """Fetch a small file as a whole and keep it. Raises SourceError."""

    async def read(self, file: Any) -> bytes: ...

    async def decode(self, data: bytes, largest: int) -> Array:
        """Decode a picture, (height, width, 3) uint8, no side over `largest`. Raises ValueError."""

    async def hear(self, file: Any, rate: int, longest: int) -> Array:
        """Decode a sound to (samples,) float32: one channel, `rate` samples per second, at most
        `longest` seconds. `file` is what `source` takes. Raises ValueError."""

    def download_url(self, data: bytes) -> str: ...

    async def hold(self, name: str) -> bool:
        """Note which program this tab has open ("": none); return whether another tab has it."""
