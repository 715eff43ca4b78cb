"""Opens the files in a manifest, and checks their sizes and hashes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from webpte.engine.files.download import Progress
from webpte.engine.files.manifest import MAX_BYTES, Manifest, ManifestPart, read_manifest
from webpte.engine.files.source import ByteSource
from webpte.engine.open.open_source import keeping, let_go, open_source
from webpte.errors import DigestError, ManifestError, SourceError

_STEP = 1 << 22  # bytes that are hashed at once


def is_manifest(source: Any) -> bool:
    """Return whether a path or an address names a JSON file, and so a manifest."""
    if isinstance(source, Path):
        return source.suffix.lower() == ".json"
    return isinstance(source, str) and _path_of(source).lower().endswith(".json")


def _path_of(address: str) -> str:
    return address.partition("#")[0].partition("?")[0]


async def open_manifest(source: str | Path, keep: bool = False) -> Manifest:
    """Read a manifest by its path or address; with `keep` it stays in the library, too."""
    with keeping(keep) as files:
        file = await open_source(source, keep=keep)
        files.append(file)
        if file.size > MAX_BYTES:
            raise ManifestError(
                f"{file.name} has {file.size:,} bytes: that is too long for a manifest"
            )
        return read_manifest(await file.read(0, file.size), file.name)


def beside(source: str | Path, name: str) -> str | Path:
    """Return the path or address of a file that a manifest names."""
    if isinstance(source, Path):
        return source.parent / name
    folder, slash, _ = _path_of(source).rpartition("/")
    return f"{folder}{slash}{name}"


async def open_part(source: str | Path, part: ManifestPart, **fetch: Any) -> ByteSource:
    """Open a file of a manifest, and check it; `fetch` are arguments of `open_source`."""
    file = await open_source(beside(source, part.name), sha256=part.sha256, **fetch)
    try:
        await check_part(file, part, fetch.get("progress"))
    except BaseException as error:
        if hasattr(file, "stop"):
            let_go(file, error)
        raise
    return file


async def check_part(file: ByteSource, part: ManifestPart, progress: Progress | None) -> None:
    """Raise unless a file matches its entry in the manifest; in the browser, fetch all of it."""
    if part.size is not None and file.size != part.size:
        raise SourceError(
            f"{part.name} has {file.size:,} bytes, but its manifest names {part.size:,}; "
            "write the manifest anew"
        )
    if part.sha256:
        await _check_digest(file, part.sha256, progress)


async def _check_digest(file: ByteSource, sha256: str, progress: Progress | None) -> None:
    if hasattr(file, "check_digest"):  # a file of the browser: its bytes stay outside of Python
        await file.check_digest(sha256, progress)
        return
    found = hashlib.sha256()
    for begin in range(0, file.size, _STEP):
        found.update(await file.read(begin, min(_STEP, file.size - begin)))
    if found.hexdigest() != sha256:
        raise DigestError(file.name, sha256, found.hexdigest())
