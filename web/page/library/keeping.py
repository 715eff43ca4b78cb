"""Files that are kept, and those that belong to them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from page.browser import Library, Source
from webpte.errors import SourceError
from webpte.library import LOCAL, Entry


async def keep(source: Source) -> None:
    """A small file, at once. If there is no room for it, it was fetched all the same."""
    if source.file is not None:
        with contextlib.suppress(SourceError):
            await source.file.keep()


def part_name(program: str, index: int) -> str:
    """What a `.ptd` is called that is kept with a program of this machine."""
    return f"{program}/{index}.ptd"


def parts_of(entries: Sequence[Entry], address: str) -> list[Entry]:
    """The `.ptd` files that were kept with a program of this machine."""
    if not address.startswith(LOCAL):
        return []
    return [entry for entry in entries if entry.address.startswith(f"{address}/")]


async def find_parts(library: Library, address: str) -> list[str]:
    """Addresses of what belongs to a program of the library."""
    if not address.startswith(LOCAL):
        return []
    return [entry.address for entry in parts_of(await library.entries(), address)]
