"""`inspect`: describes a file without a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webpte.runtime.base.info import MethodInfo
from webpte.runtime.base.open import open_source
from webpte.runtime.load.program_file import read_contents


async def inspect(
    source: Any, *, data: Sequence[Any] = (), name: str | None = None, training: bool = False
) -> dict[str, MethodInfo]:
    """Describe the methods of a file without a device; unsupported operators are listed.

    The arguments are those of `load`.
    """
    files = [await open_source(file) for file in data]
    contents = await read_contents(await open_source(source, name=name), files, training)
    return {name: method.info for name, method in contents.methods.items()}
