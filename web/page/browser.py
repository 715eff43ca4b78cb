"""The seam between the page and the browser, small enough to be faked in a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from page.cards import Card
from page.npy import Array
from webpte import DeviceInfo

Message = Mapping[str, Any]  # what someone did: "act", and what belongs to it
Progress = Callable[[str, int, int], None]  # stage, done, total


@dataclass(frozen=True)
class Source:
    """A file: what it is called, how large it is, and what the engine takes it as."""

    name: str
    size: int
    data: Any
    extra: tuple[Any, ...] = ()  # the .ptd files that belong to it
    address: str = ""  # where it was fetched from, as it was given
    card: Card | None = None  # of the gallery, if it was opened there


class Browser(Protocol):
    """All that the page wants from the browser."""

    def show(self, **changes: object) -> None:
        """Change the page, by the functions of these names in `events.js`."""

    async def adapter(self) -> DeviceInfo | str:
        """The adapter, or why there is none: "missing" or "no adapter"."""

    def source(self, file: Any) -> Source: ...

    async def fetch(self, url: str, progress: Progress) -> Source: ...

    async def fetch_bytes(self, url: str) -> bytes:
        """A small file as a whole. Raises SourceError."""

    async def read(self, file: Any) -> bytes: ...

    async def decode(self, data: bytes, largest: int) -> Array:
        """A picture as (height, width, 3) uint8, no side over `largest`. Raises ValueError."""

    def download_url(self, data: bytes) -> str: ...
