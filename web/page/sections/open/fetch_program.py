"""Fetches a program by its address: of a file, a folder, a manifest, or a repository of the Hub."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from page.browser import Browser, Progress, Source
from page.core.typed_address import origin_of
from page.shared.persistence.library_files import open_parts
from page.shared.persistence.manifests import entry_of, fetch_manifest, fetch_part
from webpte import Download, tasks
from webpte.engine.open.hub import Repository
from webpte.engine.open.hub_name import HubName, is_hub, name_of_address, parse_name
from webpte.engine.open.manifest_files import is_manifest
from webpte.engine.open.open_source import open_source
from webpte.errors import RepositoryError
from webpte.hub.layouts import ChosenProgram, Variant, list_variants, open_repository
from webpte.tasks.detect import task_of

# choose(repository, the path that is named in it, its programs)
Choose = Callable[[Repository, str, Sequence[Variant]], Awaitable[ChosenProgram]]


async def fetch_program(
    browser: Browser, wanted: str, progress: Progress, download: Download | None, choose: Choose
) -> Source:
    """Fetch a program with its `.ptd` files; its address is of the file or manifest that opens it.

    choose  chooses among the programs of a repository
    """
    name = parse_name(wanted) if is_hub(wanted) else name_of_address(wanted)
    if name is not None and PurePath(name.path).suffix in ("", ".pte", ".bpte"):
        try:
            return await _fetch_chosen(browser, name, progress, download, choose)
        except RepositoryError:
            if is_hub(wanted) or not name.path:
                raise  # else the file itself may be there, without a list
    wanted = await entry_of(browser, wanted)
    if not is_manifest(wanted):
        fetched = await open_parts(browser, await browser.fetch(wanted, progress, download))
        return replace(fetched, address=wanted)
    fetched, *parts = await fetch_manifest(browser, wanted, progress, download)
    return replace(fetched, address=wanted, extra=tuple(part.data for part in parts))


async def joined_source(chosen: ChosenProgram, files: Sequence[Any], first: Source) -> Source:
    """Return the source of a model in parts, whose files are open."""
    opened = [await open_source(file) for file in files]
    for part, file in zip(chosen.parts, opened, strict=True):
        chosen.name_part(part, file)
    size = sum(file.size for file in opened)
    return replace(
        first, name=chosen.name, size=size, data=opened[0], extra=tuple(opened[1:]), is_joined=True
    )


async def _fetch_chosen(
    browser: Browser, name: HubName, progress: Progress, download: Download | None, choose: Choose
) -> Source:
    keep = origin_of(name.root) not in browser.unkept
    repository, below = await open_repository(name, keep)
    chosen = await choose(repository, below, await list_variants(repository))
    fetched = [
        await fetch_part(browser, str(repository.place(part.name)), part, progress, download)
        for part in chosen.parts
    ]
    program, *parts = fetched
    if chosen.others:
        program = await joined_source(chosen, [one.data for one in fetched], program)
        program = replace(program, address=str(chosen))
    else:
        extra = tuple(part.data for part in parts)
        program = replace(program, address=str(chosen.place), extra=extra)
    return replace(
        program,
        task=task_of(await chosen.words(), tasks.names()),
        places={one: str(repository.place(path)) for one, path in chosen.variant.beside.items()},
    )
