"""The seam between the page and the browser, small enough to be faked in a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

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


class Browser(Protocol):
    """All that the page wants from the browser."""

    def show(self, **changes: object) -> None:
        """Change the page, by the functions of these names in `events.js`."""

    async def adapter(self) -> DeviceInfo | str:
        """The adapter, or why there is none: "missing" or "no adapter"."""

    def source(self, file: Any) -> Source: ...

    async def fetch(self, url: str, progress: Progress) -> Source: ...

    async def read(self, file: Any) -> bytes: ...

    def download_url(self, data: bytes) -> str: ...
