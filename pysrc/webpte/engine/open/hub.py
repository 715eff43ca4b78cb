"""Repositories of the Hugging Face Hub, and folders of this machine: their files by path."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urljoin

from webpte.engine.browser import IN_BROWSER
from webpte.engine.files.json_reader import Table, parse_json
from webpte.engine.files.source import ByteSource
from webpte.engine.open import library
from webpte.engine.open.hub_name import HubName, RepositoryFile, endpoint, is_path
from webpte.engine.open.open_source import keeping, open_source
from webpte.errors import RepositoryAccessError, RepositoryError, SourceError

MAX_FILES = 20_000
MAX_PAGES = 100
_NEXT = re.compile(r"<([^<>]*)>\s*;\s*rel=\"?next\"?")


@dataclass(frozen=True)
class Repository:
    """The files of a repository by path.

    root  the address or folder that has them
    hub   the name; None for a folder of this machine
    keep  whether small files that are read are kept in the browser's library
    """

    files: Mapping[str, RepositoryFile]
    root: str | Path
    hub: HubName | None = None
    keep: bool = False

    def __str__(self) -> str:
        return str(self.hub or self.root)

    def place(self, path: str) -> str | Path:
        """Return the address or path of a file."""
        return self.root / path if isinstance(self.root, Path) else self.root + quote(path)

    async def open(self, path: str, **fetch: Any) -> ByteSource:
        """Open a file; `fetch` are arguments of `open_source`."""
        file = self.files[path]
        if self.hub is None or IN_BROWSER:
            return await open_source(self.place(path), **{"sha256": file.sha256, **fetch})
        from webpte.engine.open.hub_cache import open_cached

        return await open_cached(self.hub, path, file, fetch.get("progress"))

    async def read(self, path: str) -> bytes:
        """Read a small file; a copy in the browser's library is used in any case."""
        with keeping(self.keep) as files:
            if self.hub is None or not IN_BROWSER:
                files.append(await self.open(path))
            else:
                place, sha256 = str(self.place(path)), self.files[path].sha256
                files.append(await library.open(place, sha256=sha256, keep=self.keep))
            data: bytes = await files[0].read(0, files[0].size)
        return data


async def list_hub(name: HubName, keep: bool = False) -> Repository:
    """List the files of a repository, with sizes and hashes.

    If the server cannot be reached, the list has the files that were kept.
    """
    own = replace(name, path="")
    first = f"{endpoint()}/api/models/{name.owner}/{name.name}/tree/{quote(name.revision, safe='')}"
    address, files = f"{first}?recursive=true", dict[str, RepositoryFile]()
    for _ in range(MAX_PAGES):
        try:
            status, headers, body = await _get(address)
        except SourceError as error:
            kept = await _kept(own)
            if not kept:
                raise RepositoryError(f"{own} cannot be listed: {error}") from error
            return Repository(kept, own.root, own, keep)
        if status != 200:
            raise _refused(own, status, headers.get("x-error-code", ""))
        files.update(_files_of(body, f"the list of {own}"))
        following = _NEXT.search(headers.get("link", ""))
        if len(files) > MAX_FILES or following is None:
            break
        address = urljoin(address, following[1])
        if not address.startswith(f"{first}?"):
            raise RepositoryError(f"{own}: the list goes on at another address, {address}")
    if not IN_BROWSER:
        from webpte.engine.open.hub_cache import keep_list

        keep_list(own, files)
    return Repository(files, own.root, own, keep)


async def _get(address: str) -> tuple[int, Mapping[str, str], bytes]:
    if IN_BROWSER:
        from webpte.engine.browser.hub_api import get
    else:
        from webpte.engine.open.hub_cache import get
    return await get(address)


async def _kept(name: HubName) -> dict[str, RepositoryFile]:
    """Return the files that an earlier visit has kept, by path."""
    if not IN_BROWSER:
        from webpte.engine.open.hub_cache import kept_list

        return kept_list(name)
    return {
        unquote(entry.address.removeprefix(name.root)): RepositoryFile(
            entry.size, entry.etag, entry.sha256
        )
        for entry in await library.entries()
        if entry.address.startswith(name.root) and not entry.missing
    }


def _files_of(data: bytes, name: str) -> dict[str, RepositoryFile]:
    """Read a page of a list; entries that are no files are left out."""
    listed = parse_json(data, name, RepositoryError)
    if not isinstance(listed, list):
        raise RepositoryError(f"{name} must be a list")
    found = {}
    for entry in listed:
        if not isinstance(entry, dict) or entry.get("type") != "file":
            continue
        table = Table(entry, name, RepositoryError)
        path, stored = table.text("path"), table.table("lfs", None)
        if is_path(path):
            sha256 = stored.text("oid", "").removeprefix("sha256:").lower() if stored else ""
            sha256 = sha256 if re.fullmatch("[0-9a-f]{64}", sha256) else ""
            content = re.sub("[^0-9A-Za-z]", "", table.text("oid", ""))
            found[path] = RepositoryFile(table.integer("size", low=0), sha256 or content, sha256)
    return found


def _refused(name: HubName, status: int, code: str) -> RepositoryError:
    """Return the error for an answer without a list; `code` is the server's word for its reason."""
    way = "download the repository and open its folder: pages send no token"
    if not IN_BROWSER:
        way = "set the environment variable HF_TOKEN to a token of an account that may read it"
    if code == "GatedRepo":
        return RepositoryAccessError(
            f"{name} is gated: accept its terms at {name.page}, then {way}"
        )
    if status in (401, 403):
        return RepositoryAccessError(
            f"{name} is private, or there is no such repository ({status}): check the name; "
            f"if it is right, {way}"
        )
    if code == "RevisionNotFound":
        return RepositoryError(f"{name}: there is no revision {name.revision!r}; see {name.page}")
    if status == 404:
        return RepositoryError(f"{name}: there is no such repository or revision; check the name")
    return RepositoryError(f"{name} cannot be listed now: the server answered {status}; try again")


def list_folder(folder: Path) -> Repository:
    """List the files below a folder."""
    files: dict[str, RepositoryFile] = {}
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            if path.is_file():
                files[path.relative_to(folder).as_posix()] = RepositoryFile(path.stat().st_size)
        if len(files) > MAX_FILES:
            break
    return Repository(files, folder)
