"""Opens the files of a program, by whatever names it: a file, a manifest, a name in the Hub."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from webpte.engine.files.source import ByteSource
from webpte.engine.open.hub_name import is_hub
from webpte.engine.open.manifest_files import is_manifest, open_manifest, open_part
from webpte.engine.open.open_source import open_source
from webpte.hub.layouts import ChosenProgram, choose


async def open_program_files(
    source: Any,
    data: Sequence[Any] = (),
    *,
    name: str | None = None,
    into: list[ByteSource] | None = None,
    has_half: Callable[[], Awaitable[bool]] | None = None,
    **fetch: Any,
) -> list[ByteSource]:
    """Open a program and its `.ptd` files, in order; `fetch` are arguments of `open_source`.

    into      the list to put them in, as they are opened
    has_half  returns whether the device has 16-bit floats, which chooses among files of the Hub
    """
    files = [] if into is None else into
    keep = bool(fetch.get("keep"))
    if is_hub(source):
        source = await choose(source, keep, await has_half() if has_half is not None else True)
    if isinstance(source, ChosenProgram):
        for part in source.parts:
            files.append(await source.open(part, **fetch))
    elif is_manifest(source):
        manifest = await open_manifest(source, keep)
        for part in (manifest.program, *manifest.data):
            files.append(await open_part(source, part, **fetch))
    else:
        files.append(await open_source(source, name=name, **fetch))
    first: Any = files[0]
    first.name = name or first.name
    for file in data:
        files.append(await open_source(file, **fetch))
    return files
