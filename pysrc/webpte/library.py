"""Files that the browser keeps for this site, so that they are fetched once.

    program = await webpte.load("https://.../model.pte", keep=True)

    for entry in await webpte.library.entries():
        print(entry.name, entry.size, entry.used)
    await webpte.library.delete(entry.address)

A file is known by its address. It is used again if its server has the same one (by ETag, or else
Last-Modified), and if the server cannot be asked. It is in the origin-private file system: other
sites do not see it, and the browser may delete it on a full disk, unless it granted `persist`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from webpte.errors import SourceError
from webpte.gpu.device import Progress
from webpte.runtime.base.open import IN_BROWSER
from webpte.source import LOCAL, ByteSource

__all__ = [
    "LOCAL",
    "Entry",
    "LibraryFile",
    "Usage",
    "add",
    "delete",
    "entries",
    "open",
    "persist",
    "usage",
]


@dataclass(frozen=True)
class Entry:
    """A file that is kept.

    address     where it was fetched from, or "local:NAME"
    size        in bytes
    etag        of its server, "" if it gives none; then `modified` (Last-Modified) counts
    kept, used  when it was written and opened last, in seconds since 1970
    parts       addresses of other files that were added as parts of it, in order
    """

    address: str
    name: str
    size: int
    etag: str
    modified: str
    kept: float
    used: float
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Usage:
    """Bytes that this site has on the disk, in all, and may have.

    `persistent`: the browser deletes nothing of it by itself.
    """

    used: int
    quota: int
    persistent: bool


class LibraryFile(ByteSource, Protocol):
    """A file that is open. `webpte.load` and `webpte.inspect` take it as their source.

    address  that it was opened by
    came     where from if that is worth a word, for people
    kept     whether it is in the library now
    parts    addresses of what was added to the library as parts of it
    """

    address: str
    came: str
    kept: bool
    parts: tuple[str, ...]

    async def keep(self, progress: Progress | None = None) -> bool:
        """Write what no load has read so far; the progress stage is "keep".

        Returns whether it is kept: not if another tab writes it, or this browser keeps no files.
        What goes wrong is a SourceError, and then nothing of it is left.
        """
        ...

    def leave(self) -> None:
        """Nobody wants it after all: what was written so far is removed."""
        ...


async def open(address: str, *, progress: Progress | None = None) -> LibraryFile:
    """A file by its URL, from the library if that has the newest or nothing else can be had.

    Of a new one, what is read is written on its way; `keep` it after loading, or `leave` it.
    """
    _check_browser()
    from webpte.gpu.browser.opfs_cache import open_kept

    return await open_kept(address, progress)


async def add(
    file: Any, name: str, *, parts: Sequence[str] = (), progress: Progress | None = None
) -> str:
    """Keep a copy of a Blob; returns the address that it can be opened by.

    It takes the place of the one that had this name, in one step. `parts` are addresses of files
    that were added before and belong to it, such as its `.ptd` files: whoever opens it finds these.
    """
    _check_browser()
    from webpte.gpu.browser.opfs_cache import add_blob

    return await add_blob(file, name, parts, progress)


async def entries() -> list[Entry]:
    """All that is kept, what was used last comes first."""
    _check_browser()
    from webpte.gpu.browser.opfs_cache import records

    found = [Entry(**record) for record in await records()]
    return sorted(found, key=lambda entry: -entry.used)


async def delete(address: str) -> None:
    """Nothing happens if it is not there. Raises SourceError while it is being written."""
    _check_browser()
    from webpte.gpu.browser.opfs_cache import forget

    await forget(address)


async def usage() -> Usage:
    """Zeros where the browser keeps no files."""
    _check_browser()
    from webpte.gpu.browser.opfs_cache import usage

    found = await usage()
    return Usage(int(found["usage"]), int(found["quota"]), bool(found["persistent"]))


async def persist() -> bool:
    """Ask that the browser deletes nothing by itself; returns whether it agrees."""
    _check_browser()
    from webpte.gpu.browser.opfs_cache import persist

    return await persist()


def _check_browser() -> None:
    if not IN_BROWSER:
        raise SourceError("files are kept in the browser; elsewhere they are where they were saved")
