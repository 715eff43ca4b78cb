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
    into: list[ByteSource],
    has_half: Callable[[], Awaitable[bool]] | None = None,
    **fetch: Any,
) -> str | None:
    """Open a program and the files that belong to it, in order; return the name of the model.

    The name is None if the model is a single program. `fetch` are arguments of `open_source`.

    into      the list to put them in, as they are opened
    has_half  returns whether the device has 16-bit floats, which chooses among files of the Hub
    """
    files, named = into, None
    keep = bool(fetch.get("keep"))
    if is_hub(source):
        source = await choose(source, keep, await has_half() if has_half is not None else True)
    if isinstance(source, ChosenProgram):
        named = source.name if source.others else None
        for part in source.parts:
            files.append(await source.open(part, **fetch))
    elif is_manifest(source):
        manifest = await open_manifest(source, keep)
        for part in (manifest.program, *manifest.data):
            files.append(await open_part(source, part, **fetch))
    else:
        files.append(await open_source(source, **fetch))
    for file in data:
        files.append(await open_source(file, **fetch))
    return named
