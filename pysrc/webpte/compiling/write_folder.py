"""Writes a folder as a whole: under a temporary name, which is renamed at the end."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from webpte.engine.files.source import ByteSource
from webpte.errors import SourceError

_CHUNK_BYTES = 8 << 20


async def write_folder(out: Path, files: Mapping[str, bytes | ByteSource], mark: str) -> Path:
    """Write files by their names in a folder; nothing changes if that fails.

    mark  a file in each such folder: a folder with this file is replaced, another is refused
    """
    out = out.resolve()
    if out.exists() and not (out / mark).is_file() and (out.is_file() or any(out.iterdir())):
        raise SourceError(
            f"{out} has other files: name a folder that is new, empty, or an earlier output"
        )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".webpte-", dir=out.parent) as temporary:
            made = Path(temporary) / "made"
            for name, contents in files.items():
                path = made / name
                path.parent.mkdir(parents=True, exist_ok=True)
                await _write(path, contents)
            if out.exists():
                os.rename(out, Path(temporary) / "outdated")
            os.rename(made, out)
    except OSError as error:
        raise SourceError(f"{out} could not be written: {error}") from error
    return out


async def _write(path: Path, contents: bytes | ByteSource) -> None:
    if isinstance(contents, bytes):
        path.write_bytes(contents)
        return
    with path.open("wb") as file:
        for start in range(0, contents.size, _CHUNK_BYTES):
            file.write(await contents.read(start, min(_CHUNK_BYTES, contents.size - start)))
