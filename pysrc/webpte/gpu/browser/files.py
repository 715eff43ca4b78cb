"""Files in the browser, read in parts, so that weights never enter the Python heap.

A file is a Blob, or a URL whose server answers range requests: then only the parts that are being
read are in memory. From a server without ranges the whole file is collected into a Blob first.
"""

from __future__ import annotations

from typing import Any

from pyodide.ffi import JsException

from webpte.errors import SourceError
from webpte.gpu.device import Progress
from webpte.source import check_range, fetch_problem


class JsFile:
    """A file object of files.js: `file.size`, and `file.read` with a promise of bytes."""

    def __init__(self, file: Any, name: str) -> None:
        self.file = file
        self.name = name
        self._size = int(file.size)

    @property
    def size(self) -> int:
        return self._size

    async def read(self, offset: int, length: int) -> bytes:
        check_range(self, offset, length)
        try:
            return bytes((await self.file.read(offset, length)).to_bytes())
        except JsException as error:
            raise SourceError(f"{self.name}: {error.message}") from error


async def open_url(module: Any, url: str, progress: Progress | None) -> JsFile:
    """Open a file by its address; the progress stage of a whole download is "fetch"."""
    try:
        file = await module.openUrl(url, progress)
    except JsException as error:
        raise SourceError(fetch_problem(url, error.message)) from error
    return JsFile(file, file_name(url))


def file_name(url: str) -> str:
    path = url.partition("?")[0].rstrip("/")
    return path.rpartition("/")[2] or url
