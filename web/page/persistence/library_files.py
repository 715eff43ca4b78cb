"""Files in the browser's library, and those that belong to a program there.

These are its `.ptd` files, and what was dropped with it: the manifest that names its task, a
tokenizer, and so on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from page.browser import Browser, Library, Source
from page.persistence.manifests import read_dropped
from webpte.errors import SourceError
from webpte.library import LOCAL, Entry

_COPYING_SECONDS = 3600  # that another tab may take to write one copy


async def keep_file(source: Source) -> None:
    """Keep a small file in the library, unless there is no room for it."""
    if source.file is not None:
        with contextlib.suppress(SourceError):
            await source.file.keep()


def part_name(program: str, copy: str, index: int) -> str:
    """Return the library's name for a `.ptd` of one copy of a local program.

    Each copy has its own parts: while a new copy is written, or if that fails, the old one stays
    usable. The program's entry lists its parts, so writing it switches all of them at once.
    """
    return f"{program}/{copy}-{index}.ptd"


def beside_name(program: str, copy: str, name: str) -> str:
    """Return the library's name for a file that was dropped with a program, one of its parts."""
    return f"{program}/{copy}/{name}"


async def open_parts(browser: Browser, program: Source) -> Source:
    """Return a program of the library with the files that are kept with it, and its task."""
    if program.file is None or not program.file.parts:
        return program
    constants, beside = [], []
    for part in program.file.parts:
        fetched = await browser.fetch(part, lambda stage, done, total: None)
        _, slash, name = part.removeprefix(f"{LOCAL}{program.name}/").partition("/")
        if not slash:
            constants.append(fetched.data)
        elif fetched.file is not None:
            data = await fetched.file.read(0, fetched.size)
            beside.append(browser.file_of(data, name))
    named = [*beside, browser.file_of(b"", program.name)]
    task, rest = await read_dropped(browser, named, lambda name: False)
    return replace(program, extra=tuple(constants), task=task, beside=rest)


def parts_of(entries: Sequence[Entry], program: Entry) -> list[Entry]:
    """Return the entries of files that belong to a local program."""
    return [entry for entry in entries if entry.address in program.parts]


def orphaned_parts(entries: Sequence[Entry], now: float) -> list[Entry]:
    """Return parts of copies that were never finished because the page was closed."""
    owned = {part for entry in entries for part in entry.parts}
    return [
        entry
        for entry in entries
        if _is_part(entry) and entry.address not in owned and now - entry.kept > _COPYING_SECONDS
    ]


def _is_part(entry: Entry) -> bool:
    return entry.address.startswith(LOCAL) and any(
        ending in entry.name.lower() for ending in (".pte/", ".bpte/")
    )


async def delete_all(library: Library, addresses: Iterable[str]) -> None:
    """Delete files, skipping those that are being written."""
    for address in addresses:
        with contextlib.suppress(SourceError):
            await library.delete(address)
