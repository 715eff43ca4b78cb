"""Files that the browser stores for this site, in its origin-private file system.

A stored file is used if its server has the same version, or cannot be reached. Otherwise the file
is read from the server, and the bytes that a load reads are also written to the disk; they never
enter Python. `webpte.library` is the public interface.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from time import time
from typing import Any

import js
from pyodide.ffi import JsException

from webpte.engine.browser.cache_records import Record, read_record, read_records
from webpte.engine.browser.cached_file import CachedFile, reason
from webpte.engine.browser.files import (
    JsFile,
    abortable,
    compare_digest,
    control_of,
    downloads,
    fetch_error,
    file_name,
    open_url,
)
from webpte.engine.browser.scripts import load_script
from webpte.engine.files.detached import shield_or_undo
from webpte.engine.files.download import Download, Progress
from webpte.engine.files.source import LOCAL
from webpte.errors import SourceError

# A server that takes longer to answer whether its file is the same counts as unreachable.
PATIENCE_SECONDS = 8

_ROOM_LEFT = 64 << 20  # bytes left free for other storage of the site


def key_of(address: str) -> str:
    """Return the key of a file in the folder."""
    return hashlib.sha256(address.encode()).hexdigest()[:32]


@cache
def _store() -> Any:
    """Return the functions of opfs_cache.js; None if the browser stores no files."""
    disk, plain = load_script("browser/opfs_disk.js"), load_script("browser/plain_errors.js")
    if disk is None:
        return None
    partial = load_script("browser/opfs_partial.js")(disk, plain)
    return load_script("browser/opfs_cache.js")(disk, partial, downloads(), plain)


def _known_store() -> Any:
    store = _store()
    if store is None:
        raise SourceError(
            "this browser keeps no files for this page: that takes a page from https or localhost, "
            "and a current Chrome, Edge, Firefox or Safari"
        )
    return store


async def open_kept(
    address: str,
    progress: Progress | None,
    download: Download | None = None,
    sha256: str = "",
    keep: bool = True,
) -> CachedFile:
    """Open a file by its address, from the library if it is current or the server fails.

    A file of the library with the hash `sha256` is used, under any address. Without
    `keep` nothing is written.
    """
    store = _store()
    if store is None:
        plain = await open_url(address, progress, download)
        return CachedFile(plain.file, plain.name, address, "", kept=False)
    address = _absolute(address)
    found = await _find(store, key_of(address))
    record = None if found is None else read_record(str(found.record))
    if record is None:  # an unreadable record counts as missing
        found, record = None, {}
    if address.startswith(LOCAL):
        if found is None:
            raise SourceError(
                f"{address.removeprefix(LOCAL)} is not in this browser's library (any more): open "
                "the file itself"
            )
        return await _use(store, found, record, "from the library")
    if sha256 and keep and (same := await _find_content(store, address, sha256)) is not None:
        return same
    if sha256 and (shared := await _find_shared(address, sha256)) is not None:
        return shared
    known = json.dumps({"etag": record.get("etag", ""), "modified": record.get("modified", "")})
    patience = PATIENCE_SECONDS if found is not None else 0
    control = control_of(download)
    try:
        answer = await abortable(
            lambda signal: store.ask(
                key_of(address), address, control, known, patience, progress, signal
            )
        )
    except JsException as error:
        if found is None:
            raise fetch_error(error, address) from error
        why = f"from the library, since its server cannot be asked ({error.message})"
        return await _use(store, found, record, why)
    if answer.same and found is not None:
        return await _use(store, found, record, "from the library, as its server has it")
    opened = CachedFile(answer.file, file_name(address), address, "", kept=False)
    if keep:
        await _begin(store, opened, answer, answer.etag, answer.modified)
    return opened


def _absolute(address: str) -> str:
    """Make an address absolute: pages in several folders may each have their own model.pte."""
    if address.startswith(LOCAL):
        return address
    try:
        return str(js.URL.new(address, js.location.href).href)
    except JsException as error:
        raise SourceError(f"{address} is not an address: {error.message}") from error


async def _find(store: Any, key: str) -> Any:
    try:
        return await store.find(key)
    except JsException:
        return None  # the disk fails: use the network


async def _find_content(store: Any, address: str, sha256: str) -> CachedFile | None:
    """Open a file by its hash, and note that this address has it, too."""
    try:
        found = await store.findContent(sha256)
        record = None if found is None else read_record(str(found.record))
        if record is None:
            return None
        if record["address"] != address:
            own = {"address": address, "name": file_name(address), "etag": "", "modified": ""}
            await store.adopt(key_of(address), found.record, json.dumps({**own, "parts": []}))
            record = {**record, **own, "parts": ()}
    except JsException:
        return None  # the disk fails: use the network
    return await _use(store, found, record, "from the library, which has the same content")


async def _find_shared(address: str, sha256: str) -> CachedFile | None:
    """Open a file that the browser shares among sites, by its hash, which is checked."""
    blob = await load_script("browser/cross_origin_storage.js").find(sha256)
    if blob is None:
        return None
    name = file_name(address)
    with contextlib.suppress(SourceError):  # another file, or an unreadable file
        await compare_digest(blob, name, sha256, None)
        file = load_script("browser/files.js").blobFile(blob)
        opened = CachedFile(file, name, address, "from the files that sites share", kept=False)
        opened.sha256 = sha256
        return opened
    return None


async def _use(store: Any, found: Any, record: Record, came: str) -> CachedFile:
    address = str(record["address"])
    with contextlib.suppress(JsException):  # a full disk must not prevent reading
        await store.change(key_of(address), json.dumps({"used": time()}))
    file = load_script("browser/files.js").blobFile(found.blob)
    parts = record.get("parts", ())
    opened = CachedFile(file, str(record["name"]), address, came, kept=True, parts=parts)
    opened.sha256 = str(record["sha256"])
    opened.forget = partial(forget, address)
    return opened


async def _begin(
    store: Any, opened: CachedFile, asked: Any, etag: str = "", modified: str = ""
) -> None:
    """Start to store an opened file; if that fails, `came` says why."""
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
        beginning = store.begin(key_of(opened.address), opened.size, json.dumps(record), asked)
        keeper = await shield_or_undo(beginning, _stop)
    except JsException as error:
        opened.came = f"not kept: {reason(error)}"
        return
    if keeper is not None:
        opened.begin(keeper, record)


def _stop(keeper: Any) -> None:
    """Stop a keeper; None if another tab was writing the file."""
    if keeper is not None:
        keeper.stop()


async def add_file(
    given: Any, name: str, parts: Sequence[str], progress: Progress | None, replace: bool
) -> str:
    """Store a copy of a file without an address; returns its address in the library."""
    store = _known_store()
    address = f"{LOCAL}{name}"
    is_opened = isinstance(given, JsFile)
    file = given.file if is_opened else load_script("browser/files.js").blobFile(given)
    opened = CachedFile(file, name, address, "", kept=False, parts=parts)
    await _begin(store, opened, None)
    if not opened.is_begun:
        raise SourceError(f"{name} is {opened.came or 'being kept already'}")
    # Only now, since no other tab can write the file in the meantime.
    if not replace and await _find(store, key_of(address)) is not None:
        opened.leave()
        raise SourceError(
            f"{name} is in the library already, by another tab: try again, or choose another name"
        )
    await opened.keep(progress)
    return address


@contextmanager
def _translated(problem: str) -> Iterator[None]:
    """Raise JavaScript's exceptions as SourceErrors."""
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
