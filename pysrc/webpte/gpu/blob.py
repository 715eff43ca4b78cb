"""Files in the browser: a Blob, read in parts, so that weights never enter the Python heap."""

from __future__ import annotations

from typing import Any

from pyodide.ffi import JsException

from webpte.errors import SourceError
from webpte.gpu.device import Progress
from webpte.source import check_range


class BlobSource:
    """A JS Blob or File."""

    def __init__(self, module: Any, blob: Any, name: str) -> None:
        self._module = module
        self.blob = blob
        self.name = name
        self._size = int(blob.size)

    @property
    def size(self) -> int:
        return self._size

    async def read(self, offset: int, length: int) -> bytes:
        check_range(self, offset, length)
        try:
            return bytes((await self._module.readBlob(self.blob, offset, length)).to_bytes())
        except JsException as error:
            raise SourceError(f"{self.name}: {error.message}") from error


async def fetch_blob(module: Any, url: str, progress: Progress | None) -> BlobSource:
    """Download a file; the progress stage is "fetch"."""
    try:
        blob = await module.fetchBlob(url, progress)
    except JsException as error:
        raise SourceError(
            f"{url}: {error.message}; is the address right, and does its server allow "
            "this page to read it (CORS)?"
        ) from error
    return BlobSource(module, blob, _file_name(url))


def _file_name(url: str) -> str:
    path = url.partition("?")[0].rstrip("/")
    return path.rpartition("/")[2] or url
