"""Files that the browser keeps for this site: what is asked of the server, and what is done then.

A file that is kept is used if its server has the same, or cannot be asked. Otherwise it is read
from there, and what a load reads of it goes to the disk on its way: bytes come once, and never
through Python. `webpte.library` is the public face.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import time
from typing import Any

import js
from pyodide.ffi import JsException, create_proxy

from webpte.errors import SourceError
from webpte.gpu.browser.cache_records import Record, read_record, read_records
from webpte.gpu.browser.files import JsFile, file_name, open_url
from webpte.gpu.browser.scripts import load_script
from webpte.gpu.device import Progress
from webpte.gpu.tasks import detach, shield_or_undo
from webpte.source import LOCAL

# A server that takes longer to say whether its file is the same counts as out of reach.
PATIENCE_SECONDS = 8

_ROOM_LEFT = 64 << 20  # bytes that a site may need for other things


def key_of(address: str) -> str:
    """What a file is known by in the folder."""
    return hashlib.sha256(address.encode()).hexdigest()[:32]


class CachedFile(JsFile):
    """A file that is kept, or can be: `keep` it once it is loaded, or `leave` it.

    address  that it was opened by
    came     where from if that is worth a word, for people
    kept     whether it is in the library now
    parts    addresses of what was added to the library as parts of it
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
        self._keeper: Any = None
        self._record: Record = {}
        self._leaving: weakref.finalize[[], CachedFile] | None = None
        self._keeping: asyncio.Future[bool] | None = None

    @property
    def is_begun(self) -> bool:
        """Whether it is being written, or is written already."""
        return self._keeper is not None

    def begin(self, keeper: Any, record: Record) -> None:
        """`keeper` writes it. As long as it does, nobody else can, so it is left at the latest with
        the last reference to this."""
        self._keeper, self._record = keeper, record
        self._leaving = weakref.finalize(self, keeper.leave)
        self._leaving.atexit = False

    async def keep(self, progress: Progress | None = None) -> bool:
        """Write what is not written yet; the progress stage is "keep".

        Returns whether it is kept. If another tab is at it, or the library is not there, it is
        not. What goes wrong is a SourceError, and then nothing of it is left. Whoever waits for it
        may be cancelled; it goes on.
        """
        if self._keeping is None:
            if self._leaving is None or self._leaving.detach() is None:
                return self.kept
            self._keeping = detach(self._finish(progress))
        return await asyncio.shield(self._keeping)

    async def _finish(self, progress: Progress | None) -> bool:
        proxy = None if progress is None else create_proxy(progress)
        record = json.dumps({**self._record, "name": self.name})  # as it was called meanwhile
        try:
            blob = await self._keeper.finish(self.file, record, proxy)
        except JsException as error:
            raise SourceError(f"{self.name} could not be kept: {_reason(error)}") from error
        finally:
            self._keeper = self._keeping = None
            if proxy is not None:
                proxy.destroy()
        self.file, self.kept = load_script("browser/files.js").blobFile(blob), True
        return True

    def leave(self) -> None:
        """Nobody wants it after all: what was written is removed."""
        if self._leaving is not None:
            self._leaving()  # once, and not while it is being kept


def _store() -> Any:
    """The functions of opfs_cache.js; None where the browser keeps no files."""
    return load_script("browser/opfs_cache.js")(
        load_script("browser/files.js"), load_script("browser/plain_errors.js")
    )


def _known_store() -> Any:
    store = _store()
    if store is None:
        raise SourceError(
            "this browser keeps no files for this page: that takes a page from https or localhost, "
            "and a current Chrome, Edge, Firefox or Safari"
        )
    return store


def _reason(error: JsException) -> str:
    if str(error.name) == "QuotaExceededError":
        return "the browser has no room left for this site; delete something from the library"
    return str(error.message)


async def open_kept(address: str, progress: Progress | None) -> CachedFile:
    """A file by its address, from the library if that has the newest or nothing else is there."""
    store = _store()
    if store is None:
        plain = await open_url(load_script("browser/files.js"), address, progress)
        return CachedFile(plain.file, plain.name, address, "", kept=False)
    address = _absolute(address)
    found = await _find(store, key_of(address))
    record = None if found is None else read_record(str(found.record))
    if record is None:  # what nobody can read is not there
        found, record = None, {}
    if address.startswith(LOCAL):
        if found is None:
            raise SourceError(
                f"{address.removeprefix(LOCAL)} is not in this browser's library (any more): open "
                "the file itself"
            )
        return await _use(store, found, record, "from the library")
    try:
        answer = await store.ask(
            address,
            record.get("etag", ""),
            record.get("modified", ""),
            PATIENCE_SECONDS if found is not None else 0,
            progress,
        )
    except JsException as error:
        if found is None:
            raise SourceError(
                f"{address}: {error.message}; is the address right, and does its server allow this "
                "page to read it (CORS)?"
            ) from error
        why = f"from the library, since its server cannot be asked ({error.message})"
        return await _use(store, found, record, why)
    if answer.same and found is not None:
        return await _use(store, found, record, "from the library, as its server has it")
    opened = CachedFile(answer.file, file_name(address), address, "", kept=False)
    await _begin(store, opened, answer.hearing, answer.etag, answer.modified)
    return opened


def _absolute(address: str) -> str:
    """The same for every page of a site: of several folders each may have its own model.pte."""
    if address.startswith(LOCAL):
        return address
    try:
        return str(js.URL.new(address, js.location.href).href)
    except JsException as error:
        raise SourceError(f"{address} is no address: {error.message}") from error


async def _find(store: Any, key: str) -> Any:
    try:
        return await store.find(key)
    except JsException:
        return None  # whatever is wrong with the disk: there is still the network


async def _use(store: Any, found: Any, record: Record, came: str) -> CachedFile:
    address = str(record["address"])
    with contextlib.suppress(JsException):  # a full disk is no reason not to read
        await store.change(key_of(address), json.dumps({"used": time()}))
    file = load_script("browser/files.js").blobFile(found.blob)
    parts = record.get("parts", ())
    return CachedFile(file, str(record["name"]), address, came, kept=True, parts=parts)


async def _begin(
    store: Any, opened: CachedFile, hearing: Any, etag: str = "", modified: str = ""
) -> None:
    """If it cannot be kept it is opened all the same, and says why."""
    now = time()
    record = {
        "address": opened.address,
        "name": opened.name,
        "etag": etag,
        "modified": modified,
        "kept": now,
        "used": now,
        "parts": opened.parts,
    }
    try:
        usage = json.loads(await store.usage())
        if opened.size > usage["quota"] - usage["usage"] - _ROOM_LEFT:
            opened.came = "not kept: the browser has no room left for it"
            return
        beginning = store.begin(key_of(opened.address), opened.size, hearing)
        keeper = await shield_or_undo(beginning, _leave)
    except JsException as error:
        opened.came = f"not kept: {_reason(error)}"
        return
    if keeper is not None:
        opened.begin(keeper, record)


def _leave(keeper: Any) -> None:
    """None if another tab was at it."""
    if keeper is not None:
        keeper.leave()


async def add_blob(blob: Any, name: str, parts: Sequence[str], progress: Progress | None) -> str:
    """A copy of a file that has no address; returns the one that it has here."""
    store = _known_store()
    address = f"{LOCAL}{name}"
    file = load_script("browser/files.js").blobFile(blob)
    opened = CachedFile(file, name, address, "", kept=False, parts=parts)
    await _begin(store, opened, None)
    if not opened.is_begun:
        raise SourceError(f"{name} is {opened.came or 'being kept already'}")
    await opened.keep(progress)
    return address


@contextmanager
def _translated(problem: str) -> Iterator[None]:
    """JavaScript's exceptions end here."""
    try:
        yield
    except JsException as error:
        raise SourceError(f"{problem}: {error.message}") from error


async def records() -> list[Record]:
    store = _store()
    with _translated("the library cannot be read"):
        return [] if store is None else read_records(str(await store.records()))


async def forget(address: str) -> None:
    store = _known_store()
    with _translated(f"{address} could not be deleted"):
        gone = await store.forget(key_of(_absolute(address)))
    if not gone:
        raise SourceError(f"{address} is being written, here or in another tab: try again later")


async def usage() -> Record:
    store = _store()
    if store is None:
        return {"usage": 0, "quota": 0, "persistent": False}
    with _translated("the browser does not say how much room there is"):
        found: Record = json.loads(await store.usage())
    return found


async def persist() -> bool:
    with _translated("the browser could not be asked"):
        return bool(await _known_store().persist())
