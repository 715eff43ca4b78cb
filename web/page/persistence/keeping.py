"""Files that are kept, and those that belong to them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from page.browser import Library, Source
from webpte.errors import SourceError
from webpte.library import LOCAL, Entry

_COPYING_SECONDS = 3600  # that another tab may take for one copy


async def keep(source: Source) -> None:
    """A small file, at once. If there is no room for it, it was fetched all the same."""
    if source.file is not None:
        with contextlib.suppress(SourceError):
            await source.file.keep()


def part_name(program: str, copy: str, index: int) -> str:
    """What a `.ptd` is called that is kept with one copy of a program of this machine.

    Each copy has its own: while another one is written, or if that fails, the copy before it is as
    it was. The program names its parts, and with it they change all at once.
    """
    return f"{program}/{copy}-{index}.ptd"


def parts_of(entries: Sequence[Entry], program: Entry) -> list[Entry]:
    """The `.ptd` files that are kept with a program of this machine."""
    return [entry for entry in entries if entry.address in program.parts]


def forsaken(entries: Sequence[Entry], now: float) -> list[Entry]:
    """Parts of copies that were never finished, by a page that was closed meanwhile."""
    owned = {part for entry in entries for part in entry.parts}
    return [
        entry
        for entry in entries
        if _is_part(entry) and entry.address not in owned and now - entry.kept > _COPYING_SECONDS
    ]


def _is_part(entry: Entry) -> bool:
    return entry.address.startswith(LOCAL) and ".pte/" in entry.name.lower()


async def delete_all(library: Library, addresses: Iterable[str]) -> None:
    """As many as can be: one that is being written stays."""
    for address in addresses:
        with contextlib.suppress(SourceError):
            await library.delete(address)
