"""Files in the browser's library, and the files that belong to a program there.

These are its `.ptd` files, and all files dropped with it: the manifest that names its task, a
tokenizer, and so on.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from page.browser import Browser, Library, Progress, Source
from page.shared.persistence.manifests import CARD, read_dropped
from webpte.engine.files.json_reader import parse_table
from webpte.engine.open.library import LOCAL, Entry
from webpte.engine.open.open_source import open_source
from webpte.errors import ManifestError, SourceError

USUAL_NAMES = ("model.pte", "program.pte")  # of programs in folders whose names say more
_COMPARED_BYTES = 4 << 20  # of each of two files, in memory at once
_NUMBER = re.compile(r" \(\d+\)$")
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


async def title_name(browser: Browser, source: Source) -> str:
    """Return a name for a copy of a program: its card's, if the file's name says nothing."""
    if source.name not in USUAL_NAMES or CARD not in source.beside:
        return source.name
    card = parse_table(await browser.read(source.beside[CARD]), CARD, ManifestError)
    title = " ".join(card.text("name", "").replace("/", " ").split())
    return f"{title}.pte" if title else source.name


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name that no other file has: `model (2).pte` if there is a `model.pte`."""
    found, number = name, 2
    while found in taken:
        found = f"{_stem(name)} ({number}){PurePath(name).suffix}"
        number += 1
    return found


def _stem(name: str) -> str:
    return _NUMBER.sub("", PurePath(name).stem)


async def find_same(
    browser: Browser, entries: Sequence[Entry], source: Source, name: str, progress: Progress
) -> Entry | None:
    """Find a copy that was kept by this name, or by a numbered one, with the same bytes.

    Its `.ptd` files and the files beside it have to be the same, too.
    """
    suffix, own = PurePath(name).suffix, _files_of(browser, source)
    for entry in entries:
        is_named = (_stem(entry.name), PurePath(entry.name).suffix) == (_stem(name), suffix)
        if not entry.address.startswith(LOCAL) or not is_named or entry.missing:
            continue
        kept = {_role(entry, part.address): part for part in [entry, *parts_of(entries, entry)]}
        if len(kept) != 1 + len(entry.parts) or own.keys() != kept.keys():
            continue
        pairs = [(own[role], kept[role].address) for role in own]
        with contextlib.suppress(SourceError):  # what cannot be read is not the same
            if source.size == entry.size and await _are_same(browser, pairs, progress):
                return entry
    return None


def _files_of(browser: Browser, source: Source) -> dict[str, Any]:
    """Return the files of a program by their roles: see `_role`."""
    constants = {f"{index}.ptd": part for index, part in enumerate(source.extra)}
    beside = {f"/{name}": browser.source(file).data for name, file in source.beside.items()}
    return {"": source.data, **constants, **beside}


def _role(program: Entry, address: str) -> str:
    """Return the role of a kept file in its program: "" itself, "0.ptd", "/config.json"."""
    rest = address.removeprefix(program.address)
    return re.sub(r"^/\w+-?", "", rest)


async def _are_same(browser: Browser, pairs: Sequence[tuple[Any, str]], progress: Progress) -> bool:
    """Compare files with those at addresses of the library, until bytes differ."""
    opened = []
    for given, address in pairs:
        kept = (await browser.fetch(address, lambda stage, done, total: None)).file
        if kept is None:
            return False
        opened.append((await open_source(given), kept))
    if any(one.size != kept.size for one, kept in opened):
        return False
    done, total = 0, sum(one.size for one, _ in opened)
    for one, kept in opened:
        for begin in range(0, one.size, _COMPARED_BYTES):
            length = min(_COMPARED_BYTES, one.size - begin)
            if await one.read(begin, length) != await kept.read(begin, length):
                return False
            done += length
            progress("check", done, total)
    return True


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
    task, rest = await read_dropped(browser, beside, lambda name: False, is_kept=True)
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
    """Delete files, skipping files that are being written."""
    for address in addresses:
        with contextlib.suppress(SourceError):
            await library.delete(address)
