"""The library: files that the browser keeps for this site, so that they are fetched once.

    program = await webpte.load("https://.../model.pte", keep=True)

    for entry in await webpte.library.entries():
        print(entry.name, entry.size, entry.used)
    await webpte.library.delete(entry.address)

A file is identified by its address. The kept copy is used if the server's file is unchanged (by
ETag, or else Last-Modified) or the server cannot be reached. It is in the origin-private file
system: other sites cannot see it, and the browser may delete it if the disk is full, unless it
granted `persist`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from webpte.engine.browser import IN_BROWSER
from webpte.engine.files.download import Download, Progress
from webpte.engine.files.source import LOCAL, ByteSource
from webpte.errors import SourceError

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
    """A file that is kept, completely or in part.

    address     its URL, or "local:NAME"
    size        in bytes
    etag        the server's ETag; if "", `modified` (Last-Modified) is compared
    kept, used  times of the last write and the last opening, in seconds since 1970
    parts       addresses of files that were added as its parts, in order
    missing     bytes still to be fetched, because its load was interrupted; opening it again
                fetches only these
    sha256      its hash, if a manifest named it; "" otherwise
    """

    address: str
    name: str
    size: int
    etag: str
    modified: str
    kept: float
    used: float
    parts: tuple[str, ...] = ()
    missing: int = 0
    sha256: str = ""


@dataclass(frozen=True)
class Usage:
    """Bytes that this site uses on the disk, and its quota.

    `persistent`: the browser does not delete the site's files without being asked.
    """

    used: int
    quota: int
    persistent: bool


class LibraryFile(ByteSource, Protocol):
    """An open file. `webpte.load` and `webpte.inspect` take it as their source.

    address  the address that was opened
    came     its origin if worth a message, for people
    kept     whether it is in the library now
    parts    addresses of files that were added to the library as its parts
    """

    address: str
    came: str
    kept: bool
    parts: tuple[str, ...]

    async def check_digest(self, sha256: str, progress: Progress | None = None) -> None:
        """Fetch the whole file, and raise DigestError unless it has this hash."""
        ...

    async def keep(self, progress: Progress | None = None) -> bool:
        """Write the bytes that no load has read so far; the progress stage is "keep".

        Returns whether the file is kept: False if another tab writes it, or this browser keeps no
        files. After a failure, which raises SourceError, the next opening continues with the
        written bytes; if the disk is full, they are deleted.
        """
        ...

    def stop(self) -> None:
        """Stop writing: the next opening goes on with the bytes written so far."""
        ...

    def leave(self) -> None:
        """Remove the bytes written so far: the file is not to be kept."""
        ...


async def open(
    address: str,
    *,
    progress: Progress | None = None,
    download: Download | None = None,
    sha256: str = "",
    keep: bool = True,
) -> LibraryFile:
    """Open a file by its URL, from the library if its copy is current or the server is unreachable.

    The bytes of a new file are written to the library as they are read; `keep` it after loading, or
    `stop` or `leave` it. Bytes that an interrupted load has written are not fetched again. A file
    with the hash `sha256` that was kept from another address is used for this address, too: it is
    stored once. Without `keep` a copy is used, but nothing is written.
    """
    _check_browser()
    from webpte.engine.browser.opfs_cache import open_kept

    return await open_kept(address, progress, download, sha256, keep)


async def add(
    file: Any,
    name: str,
    *,
    parts: Sequence[str] = (),
    progress: Progress | None = None,
    replace: bool = True,
) -> str:
    """Keep a copy of a Blob or of a file of the library; return the address to open it by.

    The copy atomically replaces a file of this name; with `replace=False` an existing file raises
    SourceError. `parts` are addresses of added files that belong to it, for example its `.ptd`
    files: opening it finds them.
    """
    _check_browser()
    from webpte.engine.browser.opfs_cache import add_file

    return await add_file(file, name, parts, progress, replace)


async def entries() -> list[Entry]:
    """List the kept files, also incomplete files, the last used first."""
    _check_browser()
    from webpte.engine.browser.opfs_cache import records

    found = [Entry(**record) for record in await records()]
    return sorted(found, key=lambda entry: -entry.used)


async def delete(address: str) -> None:
    """Delete a file, if it is there; raise SourceError while it is being written."""
    _check_browser()
    from webpte.engine.browser.opfs_cache import forget

    await forget(address)


async def usage() -> Usage:
    """Return the site's usage; zeros if the browser keeps no files."""
    _check_browser()
    from webpte.engine.browser.opfs_cache import usage

    found = await usage()
    return Usage(int(found["usage"]), int(found["quota"]), bool(found["persistent"]))


async def persist() -> bool:
    """Ask the browser not to delete files without being asked; return whether it agrees."""
    _check_browser()
    from webpte.engine.browser.opfs_cache import persist

    return await persist()


def _check_browser() -> None:
    if not IN_BROWSER:
        raise SourceError(
            "the library exists only in a browser; elsewhere, open the file by its path"
        )
