"""Whatever the caller has (bytes, a path, a URL, a Blob) as a ByteSource."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from webpte.errors import SourceError
from webpte.gpu.device import Progress
from webpte.source import ByteSource, BytesSource, FileSource

IN_BROWSER = sys.platform == "emscripten"


async def open_source(
    source: Any, *, name: str | None = None, progress: Progress | None = None
) -> ByteSource:
    """In the browser all become JavaScript objects: constants go from there to the GPU."""
    if isinstance(source, Path):
        if not IN_BROWSER:
            return FileSource(source)
        source, name = _read_file(source), name or source.name
    if isinstance(source, bytes | bytearray | memoryview):
        return open_bytes(source, name or "bytes")
    if isinstance(source, str):
        if not IN_BROWSER:
            return FileSource(Path(source))
        from webpte.gpu.files import open_url
        from webpte.gpu.webgpu import load_script

        return await open_url(load_script("files.js"), source, progress)
    if IN_BROWSER and hasattr(source, "arrayBuffer") and hasattr(source, "slice"):
        from webpte.gpu.files import JsFile
        from webpte.gpu.webgpu import load_script

        file = load_script("files.js").blobFile(source)
        return JsFile(file, str(name or getattr(source, "name", "blob")))
    raise SourceError(
        f"cannot open a {type(source).__name__}: give bytes, a path, "
        "or in the browser a URL or a Blob"
    )


def open_bytes(data: bytes | bytearray | memoryview, name: str) -> ByteSource:
    if not IN_BROWSER:
        return BytesSource(data, name)
    from webpte.gpu.files import JsFile
    from webpte.gpu.webgpu import load_script

    return JsFile(load_script("files.js").bytesFile(data), name)


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from error
