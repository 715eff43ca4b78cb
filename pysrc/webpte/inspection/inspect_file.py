"""`inspect`: describes a file without a device."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from webpte.engine.call.info import MethodInfo
from webpte.engine.files.source import ByteSource
from webpte.engine.load.join_programs import read_programs
from webpte.hub.program_files import open_program_files


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
    files = list[ByteSource]()
    named = await open_program_files(source, data, into=files)
    contents = await read_programs(files, optional, name or named)
    return {name: method.info for name, method in contents.methods.items()}
