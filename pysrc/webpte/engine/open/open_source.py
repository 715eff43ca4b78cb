"""Opens a caller's bytes, path, URL or Blob as a ByteSource."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from webpte.engine.browser import IN_BROWSER
from webpte.engine.files.detached import detach
from webpte.engine.files.download import Download, Progress
from webpte.engine.files.source import ByteSource, BytesSource, FileSource, read_whole
from webpte.errors import (
    DigestError,
    FileChangedError,
    FormatError,
    GraphError,
    ManifestError,
    SourceError,
    UnsupportedError,
)

# Errors of files that stay useless, however often they are read.
UNUSABLE = (
    FormatError,
    GraphError,
    UnsupportedError,
    FileChangedError,
    DigestError,
    ManifestError,
)


async def open_source(
    source: Any,
    *,
    name: str | None = None,
    progress: Progress | None = None,
    keep: bool = False,
    download: Download | None = None,
    sha256: str = "",
) -> ByteSource:
    """Open a source; in the browser as a JavaScript object, from which constants go to the GPU.

    With `keep` a URL comes from the library if it has the file, by the hash `sha256` if given, and
    can be kept there.
    """
    if IN_BROWSER and (opened := _opened(source, name)) is not None:
        return opened
    if isinstance(source, ByteSource):
        return source
    if isinstance(source, Path):
        if not IN_BROWSER:
            return FileSource(source)
        source, name = read_whole(source), name or source.name
    if isinstance(source, bytes | bytearray | memoryview):
        return open_bytes(source, name or "bytes")
    if isinstance(source, str):
        if not source:
            raise SourceError("'' names no file: give a path, or in the browser a URL")
        if not IN_BROWSER:
            return FileSource(Path(source))
        if keep:
            from webpte.engine.browser.opfs_cache import open_kept

            return await open_kept(source, progress, download, sha256)
        from webpte.engine.browser.files import open_url

        return await open_url(source, progress, download)
    if IN_BROWSER and hasattr(source, "arrayBuffer") and hasattr(source, "slice"):
        from webpte.engine.browser.files import JsFile
        from webpte.engine.browser.scripts import load_script

        file = load_script("browser/files.js").blobFile(source)
        return JsFile(file, str(name or getattr(source, "name", "blob")), source)
    raise SourceError(
        f"cannot open a {type(source).__name__}: give bytes, a path, "
        "or in the browser a URL or a Blob"
    )


@contextmanager
def keeping(wanted: bool) -> Iterator[list[Any]]:
    """Keep the library's files that are put into the list, in the background.

    If anything is raised inside, for example because the network fails, no file is kept; the next
    load continues with the written bytes, unless the files are useless.
    """
    files: list[Any] = []
    try:
        yield files
    except BaseException as error:
        for file in _of_library(files, wanted):
            let_go(file, error)
        raise
    for file in _of_library(files, wanted):
        detach(file.keep())


def let_go(file: Any, error: BaseException) -> None:
    """Stop keeping a library file after a failed load; remove a useless file."""
    if isinstance(error, UNUSABLE):
        file.leave()
    else:
        file.stop()


def _of_library(files: Sequence[Any], wanted: bool) -> list[Any]:
    return [file for file in files if wanted and hasattr(file, "keep")]


def _opened(source: Any, name: str | None) -> ByteSource | None:
    """Return an open library file under another name."""
    from webpte.engine.browser.files import JsFile

    if not isinstance(source, JsFile):
        return None
    source.name = name or source.name
    return source


def open_bytes(data: bytes | bytearray | memoryview, name: str) -> ByteSource:
    if not IN_BROWSER:
        return BytesSource(data, name)
    from webpte.engine.browser.files import JsFile
    from webpte.engine.browser.scripts import load_script

    return JsFile(load_script("browser/files.js").bytesFile(data), name)
