"""Files in the browser, read in parts, so that weights never enter the Python heap.

A file is a Blob, or a URL whose server answers range requests: then only the parts that are being
read are in memory. From a server without ranges the whole file is collected into a Blob first.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, TypeVar

from js import AbortController
from pyodide.ffi import JsException

from webpte.engine.browser.scripts import load_script
from webpte.engine.files.download import Download, Progress
from webpte.engine.files.source import check_range, fetch_problem
from webpte.errors import DigestError, FileChangedError, SourceError

T = TypeVar("T")


class JsFile:
    """A file object of files.js: `file.size`, and `file.read` with a promise of bytes.

    Files of the same caller's `blob` are equal, and so are files with the same hash.

    sha256   its hash, if that was checked
    """

    def __init__(self, file: Any, name: str, blob: Any = None) -> None:
        self.file = file
        self.name = name
        self.sha256 = ""
        self._size = int(file.size)
        self._blob = blob

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, JsFile):
            return NotImplemented
        both = self._blob is not None and other._blob is not None
        same_blob = both and self._blob.js_id == other._blob.js_id
        return self is other or same_blob or (self.sha256 != "" and self.sha256 == other.sha256)

    def __hash__(self) -> int:
        return hash(self._size)

    @property
    def size(self) -> int:
        return self._size

    async def read(self, offset: int, length: int) -> bytes:
        check_range(self, offset, length)
        try:
            found = await abortable(lambda signal: self.file.read(offset, length, signal))
        except JsException as error:
            raise source_error(error, self.name) from error
        return bytes(found.to_bytes())

    async def check_digest(self, sha256: str, progress: Progress | None = None) -> None:
        """Fetch the whole file, and raise DigestError unless it has this hash.

        Later reads use the fetched bytes, which are in a Blob.
        """
        try:
            blob = await abortable(
                lambda signal: downloads().collectFile(self.file, progress, signal)
            )
        except JsException as error:
            raise source_error(error, self.name) from error
        await compare_digest(blob, self.name, sha256, progress)
        self.sha256 = sha256
        self.file = load_script("browser/files.js").blobFile(blob)


_DIGEST_BYTES = 4 << 20  # hashed at once, in Python's memory


async def compare_digest(blob: Any, name: str, sha256: str, progress: Progress | None) -> None:
    """Raise DigestError unless a Blob has this hash; the progress stage is "check"."""
    found, size = hashlib.sha256(), int(blob.size)
    for begin in range(0, size, _DIGEST_BYTES):
        end = min(begin + _DIGEST_BYTES, size)
        try:
            found.update((await blob.slice(begin, end).arrayBuffer()).to_memoryview())
        except JsException as error:
            raise SourceError(f"{name} cannot be read: {error.message}") from error
        if progress is not None:
            progress("check", end, size)
    if found.hexdigest() != sha256:
        raise DigestError(name, sha256, found.hexdigest())


def source_error(error: JsException, name: str) -> SourceError:
    """Return the Python error for an error of downloads.js while a file is read."""
    return _kind(error)(f"{name}: {error.message}")


def fetch_error(error: JsException, address: str) -> SourceError:
    """Return the Python error for an error of downloads.js when a file is opened."""
    return _kind(error)(fetch_problem(address, str(error.message)))


def _kind(error: JsException) -> type[SourceError]:
    return FileChangedError if str(error.name) == "FileChangedError" else SourceError


async def abortable(start: Callable[[Any], Awaitable[T]]) -> T:
    """Await a promise that `start` makes with an AbortSignal; aborts it if cancelled."""
    aborting = AbortController.new()
    try:
        return await start(aborting.signal)
    except asyncio.CancelledError:
        aborting.abort()
        raise


@cache
def downloads() -> Any:
    """Return the functions of downloads.js."""
    return load_script("browser/downloads.js")(
        load_script("browser/files.js"), load_script("browser/retry.js")
    )


def control_of(download: Download | None) -> Any:
    """Make the control of a file's requests."""
    download = download or Download()
    control = downloads().makeControl(download.limits())
    download.attach(control)
    return control


async def open_url(url: str, progress: Progress | None, download: Download | None) -> JsFile:
    """Open a file by its address; the progress stage of a whole download is "fetch"."""
    control = control_of(download)
    try:
        file = await abortable(lambda signal: downloads().openUrl(url, control, progress, signal))
    except JsException as error:
        raise fetch_error(error, url) from error
    return JsFile(file, file_name(url))


def file_name(url: str) -> str:
    path = url.partition("?")[0].rstrip("/")
    return path.rpartition("/")[2] or url
