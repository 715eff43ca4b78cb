"""Files of the Hub on this machine's disk: fetched once, by their content, and checked.

The folder is WEBPTE_HUB_CACHE, by default `webpte/hub` in the user's cache folder. A fetch that was
interrupted goes on where it stopped.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from webpte.engine.files.download import Progress
from webpte.engine.files.json_reader import MAX_BYTES, read_table
from webpte.engine.files.source import FileSource
from webpte.engine.open.hub_name import HubName, RepositoryFile, endpoint
from webpte.engine.open.threads import in_thread
from webpte.errors import DigestError, RepositoryAccessError, SourceError

SECONDS = 30  # without a byte, after which a request has failed
ATTEMPTS = 6  # in a row without a byte
PAUSE = 0.25  # seconds, doubled after each failure
_STEP = 4 << 20


def cache_folder() -> Path:
    """Return the folder that has the files."""
    if given := os.environ.get("WEBPTE_HUB_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "webpte" / "hub"


class _Redirects(HTTPRedirectHandler):
    """Redirects to http and https; another server gets no token."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        if urlsplit(newurl).scheme not in ("http", "https"):
            raise HTTPError(req.full_url, code, "a redirect to another scheme", headers, fp)
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        return made and _with_token(made)


def _with_token(request: Request) -> Request:
    """Add the token to a request to the Hub itself; a redirect does not copy it."""
    token, asked, hub = os.environ.get("HF_TOKEN", "").strip(), request.full_url, endpoint()
    if token and urlsplit(asked)[:2] == urlsplit(hub)[:2]:
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    return request


def _opener() -> OpenerDirector:
    return build_opener(_Redirects)


def _ask(address: str, headers: Mapping[str, str]) -> Any:
    """Return the answer to a request, also of a server that refuses it."""
    request = Request(address, headers={"User-Agent": "webpte", **headers})
    try:
        return _opener().open(_with_token(request), timeout=SECONDS)
    except HTTPError as error:
        return error


async def get(address: str) -> tuple[int, Mapping[str, str], bytes]:
    """Return the status, headers and body of an answer; SourceError if there is no answer."""

    def ask() -> tuple[int, Mapping[str, str], bytes]:
        with _ask(address, {}) as answer:
            headers = {name.lower(): value for name, value in answer.headers.items()}
            return answer.status, headers, answer.read(MAX_BYTES + 1)

    try:
        return await in_thread(ask)
    except (OSError, HTTPException, ValueError) as error:
        raise SourceError(f"{address}: {_why(error)}") from error


def _why(error: Exception) -> str:
    return str(error.reason if isinstance(error, URLError) else error) or type(error).__name__


async def open_cached(
    name: HubName, path: str, file: RepositoryFile, progress: Progress | None
) -> FileSource:
    """Open a file of a repository, which is fetched if it is not there."""
    own = path.rpartition("/")[2]
    place = _folder(name) / (file.content or quote(f"{name.revision}/{path}", safe="")) / own
    if not place.is_file() or place.stat().st_size != file.size:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            await _fetch(f"{name.root}{quote(path)}", place, file, progress)
        except OSError as error:
            raise SourceError(
                f"{path} cannot be kept in {cache_folder()}: {error}; name another folder in the "
                "environment variable WEBPTE_HUB_CACHE"
            ) from error
    return FileSource(place)


async def _fetch(
    address: str, place: Path, file: RepositoryFile, progress: Progress | None
) -> None:
    """Fetch a file to its place, and check its size and hash."""
    part = place.with_name(f"{place.name}.part")
    part.touch()
    # Written at offsets, not appended: two processes that fetch a file write the same bytes.
    with part.open("r+b") as written:
        failed = 0
        while (done := written.seek(0, os.SEEK_END)) != file.size:
            try:
                await _continue(address, written, done, file, progress)
                break
            except (OSError, HTTPException) as error:
                more = written.seek(0, os.SEEK_END) > done
                failed = 1 if more else failed + 1
                if failed >= ATTEMPTS:
                    raise SourceError(f"{address}: {_why(error)}; try again") from error
                await asyncio.sleep(PAUSE * 2**failed)
        size = written.seek(0, os.SEEK_END)
        found = ""
        if file.sha256 and size == file.size:
            written.seek(0)
            found = (await in_thread(hashlib.file_digest, written, "sha256")).hexdigest()
    if size != file.size or found != file.sha256:
        part.unlink(missing_ok=True)
        if size == file.size:
            raise DigestError(place.name, file.sha256, found)
        raise SourceError(f"{address} has {size:,} bytes, but its list names {file.size:,}")
    if part.exists():  # else another process was faster
        os.replace(part, place)


async def _continue(
    address: str, written: IO[bytes], done: int, file: RepositoryFile, progress: Progress | None
) -> None:
    """Fetch the bytes from `done` on."""
    ranged = {"Range": f"bytes={done}-"} if done else {}
    with await in_thread(_ask, address, ranged) as answer:
        if answer.status in (401, 403):
            raise RepositoryAccessError(
                f"{address}: the server answered {answer.status}: set the environment variable "
                "HF_TOKEN to a token of an account that may read it"
            )
        if answer.status >= 500 or answer.status in (408, 425, 429):
            raise ConnectionError(f"the server answered {answer.status}")
        if answer.status not in (200, 206):
            raise SourceError(f"{address}: the server answered {answer.status}")
        if answer.status == 200:  # all of it
            done = 0
            written.truncate(0)
        written.seek(done)
        while data := await in_thread(answer.read, min(_STEP, file.size + 1 - done)):
            done += written.write(data)
            if progress is not None:
                progress("fetch", done, max(file.size, done))
            if done > file.size:
                return
    if done < file.size:
        raise ConnectionError(f"received {done:,} of {file.size:,} bytes")


def _folder(name: HubName) -> Path:
    return cache_folder() / f"{name.owner}--{name.name}"


def keep_list(name: HubName, files: Mapping[str, RepositoryFile]) -> None:
    """Keep the list of a repository for times without a network, if the disk allows it."""
    place = _folder(name) / f"{quote(name.revision, safe='')}.json"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({path: asdict(file) for path, file in files.items()})
        place.write_text(text, encoding="utf-8")
    except OSError:
        return  # nothing but times without a network needs it


def kept_list(name: HubName) -> dict[str, RepositoryFile]:
    """Return the files of the list that was kept; none if there is no list."""
    try:
        table = read_table(_folder(name) / f"{quote(name.revision, safe='')}.json", SourceError)
        entries = [(path, table.table(path)) for path in table.content]
        return {
            path: RepositoryFile(entry.integer("size"), entry.text("content"), entry.text("sha256"))
            for path, entry in entries
        }
    except SourceError:
        return {}
