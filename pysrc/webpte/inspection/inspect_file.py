"""`inspect`: describes a file without a device."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from webpte.engine.call.info import MethodInfo
from webpte.engine.load.program_file import read_contents
from webpte.engine.open.open_source import open_source


async def inspect(
    source: Any,
    *,
    data: Sequence[Any] = (),
    name: str | None = None,
    optional: Collection[str] = (),
) -> dict[str, MethodInfo]:
    """Describe the methods of a file without a device; unsupported operators are listed.

    The arguments are as for `load`.
    """
    files = [await open_source(file) for file in data]
    contents = await read_contents(await open_source(source, name=name), files, optional)
    return {name: method.info for name, method in contents.methods.items()}
