"""Files of the library while they are open: read, kept while they are read, or let go."""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pyodide.ffi import JsException, create_proxy

from webpte.engine.browser.cache_records import Record
from webpte.engine.browser.files import JsFile, compare_digest
from webpte.engine.browser.scripts import load_script
from webpte.engine.files.detached import detach
from webpte.engine.files.download import Progress
from webpte.errors import DigestError, SourceError

_FULL = "QuotaExceededError"  # the browsers' name of the error
_NO_ROOM = "the browser has no room left for this site; delete something from the library"


class CachedFile(JsFile):
    """A file that is stored or can be stored: `keep` it once it is loaded, or `leave` it.

    address  the address that was opened
    came     its origin, for people; empty for an ordinary download
    kept     whether it is in the library now
    parts    addresses of files that were added to the library as its parts
    forget   deletes it from the library, if it came from there
    """

    def __init__(
        self,
        file: Any,
        name: str,
        address: str,
        came: str,
        kept: bool,
        parts: Sequence[str] = (),
    ) -> None:
        super().__init__(file, name)
        self.address = address
        self.came = came
        self.kept = kept
        self.parts = tuple(parts)
        self.forget: Callable[[], Awaitable[None]] | None = None
        self._keeper: Any = None
        self._record: Record = {}
        self._stopping: weakref.finalize[[], CachedFile] | None = None
        self._keeping: asyncio.Future[bool] | None = None

    @property
    def is_begun(self) -> bool:
        """Whether writing the file has begun."""
        return self._keeper is not None

    def begin(self, keeper: Any, record: Record) -> None:
        """Start to store the file; `keeper` locks it, at most as long as this object lives."""
        self._keeper, self._record = keeper, record
        self._stopping = weakref.finalize(self, keeper.stop)
        self._stopping.atexit = False

    async def keep(self, progress: Progress | None = None) -> bool:
        """Write the rest of the file; the progress stage is "keep".

        Returns whether the file is stored: False if another tab is writing it, or there is no
        library. An error raises SourceError, and the next opening continues with the written bytes;
        on a full disk they are deleted. If the caller is cancelled, writing goes on.
        """
        if self._keeping is None:
            if self._stopping is None or self._stopping.detach() is None:
                return self.kept
            self._keeping = detach(self._finish(progress))
        return await asyncio.shield(self._keeping)

    async def _finish(self, progress: Progress | None) -> bool:
        proxy = None if progress is None else create_proxy(progress)
        record = json.dumps({**self._record, "name": self.name})  # the name may have changed
        try:
            blob = await self._keeper.finish(self.file, proxy)
            if self._record.get("sha256"):
                await self._compare(blob, progress)
            await self._keeper.commit(record)
        except JsException as error:
            raise SourceError(f"{self.name} could not be kept: {reason(error)}") from error
        finally:
            self._keeper = self._keeping = None
            if proxy is not None:
                proxy.destroy()
        self.file, self.kept = load_script("browser/files.js").blobFile(blob), True
        if self._record.get("sha256"):
            detach(
                load_script("browser/cross_origin_storage.js").give(self._record["sha256"], blob)
            )
        return True

    async def _compare(self, blob: Any, progress: Progress | None) -> None:
        """Verify the hash of a complete file; delete the file on a mismatch."""
        try:
            await compare_digest(blob, self.name, self._record["sha256"], progress)
        except SourceError:
            await self._keeper.leave()
            raise

    async def check_digest(self, sha256: str, progress: Progress | None = None) -> None:
        """Fetch the whole file, and raise DigestError unless it has this hash.

        A stored file with the hash in its record was checked when it was stored.
        """
        if self.sha256 == sha256:  # its content was checked
            return
        self._record["sha256"] = sha256
        if self.kept or not self.is_begun:
            try:
                await super().check_digest(sha256, progress)
            except DigestError:
                if self.forget is not None:
                    await self.forget()
                raise
            return

        def told(stage: str, done: int, total: int) -> None:
            if progress is not None:
                progress("fetch" if stage == "keep" else stage, done, total)

        try:
            kept = await self.keep(told)
        except asyncio.CancelledError:
            self.stop()
            raise
        except SourceError as error:
            if str(getattr(error.__cause__, "name", "")) != _FULL:
                raise
            self.came, kept = f"not kept: {_NO_ROOM}", False
        if not kept:
            await super().check_digest(sha256, progress)
        self.sha256 = sha256

    def stop(self) -> None:
        """Stop storing the file; the next opening goes on with the bytes that were written."""
        if self._keeping is not None:
            self._keeper.stop()
        if self._stopping is not None:
            self._stopping()  # once, and not while it is being kept

    def leave(self) -> None:
        """Stop storing the file, and remove the bytes that were written."""
        if self._stopping is not None and self._stopping.detach() is not None:
            self._keeper.leave()


def reason(error: JsException) -> str:
    """Return the message of a disk error, for people."""
    if str(error.name) == _FULL:
        return _NO_ROOM
    return str(error.message)
