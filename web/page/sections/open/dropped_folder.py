"""A folder that was dropped: its program is chosen, and its files are read, as in the Hub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from page.browser import Message, Source
from page.core.state import AppState
from page.sections.open.fetch_program import joined_source
from webpte import tasks
from webpte.engine.files.source import ByteSource
from webpte.engine.open.hub import Repository
from webpte.engine.open.hub_name import RepositoryFile
from webpte.engine.open.open_source import open_source
from webpte.hub.layouts import choose_among, list_variants
from webpte.tasks.detect import task_of


@dataclass(frozen=True)
class DroppedFolder(Repository):
    """Files of a folder by their paths in it."""

    dropped: Mapping[str, Source] = field(default_factory=dict)

    async def open(self, path: str, **fetch: Any) -> ByteSource:
        return await open_source(self.dropped[path].data, name=PurePath(path).name)


async def read_folder(state: AppState, message: Message) -> Source:
    """Return the program of a folder that suits the device, with the files beside it."""
    files = dict(zip(message["paths"], message["files"], strict=True))
    adapter, browser = state.adapter, state.browser
    half = adapter is None or adapter.has_f16
    folder = next(iter(files)).partition("/")[0]
    inside = {path.removeprefix(f"{folder}/"): file for path, file in files.items()}
    sources = {path: browser.source(file) for path, file in inside.items()}
    listed = {path: RepositoryFile(source.size) for path, source in sources.items()}
    repository = DroppedFolder(listed, folder, dropped=sources)
    chosen = choose_among(repository, "", await list_variants(repository), half)
    opened = [await chosen.open(part) for part in chosen.parts]  # which checks it
    program, *data = (sources[part.name] for part in chosen.parts)
    if chosen.others:
        program = await joined_source(chosen, opened, program)
    else:
        extra = tuple(one.data for one in data)
        program = replace(program, name=PurePath(chosen.path).name, extra=extra)
    return replace(
        program,
        task=task_of(await chosen.words(), tasks.names()),
        beside={name: inside[path] for name, path in chosen.variant.beside.items()},
    )
