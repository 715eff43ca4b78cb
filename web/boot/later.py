"""Files that the browser fetches once they are asked for: Python's whole library, and sources.

A start imports compiled modules. The rest of the library is for other imports, and sources are for
tracebacks and `inspect`. The worker names their addresses in `webpteLater`. Python cannot wait for
them in an import, so the worker requests them without going on meanwhile.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import sys
import zipfile
import zipimport
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import js

_NAMES = "later.txt"  # in the library of a start: the modules that only the whole one has
_HOME = Path.cwd()


def fetch(name: str) -> bytes:
    """Return a file by its name in `webpteLater`; raise an OSError if it cannot be had."""
    address = str(getattr(js.webpteLater, name))
    request = js.XMLHttpRequest.new()
    try:
        request.open("GET", address, False)
        request.responseType = "arraybuffer"
        request.send()
        if request.status != 200:
            raise OSError(f"{address}: {request.status} {request.statusText}")
        return bytes(js.Uint8Array.new(request.response).to_bytes())
    except js.Error as error:  # the network
        raise OSError(f"{address}: {error}") from error


def unpack_sources() -> None:
    """Unpack the sources of webpte and the page beside the other files."""
    with zipfile.ZipFile(io.BytesIO(fetch("sources"))) as archive:
        archive.extractall(_HOME)


def fetch_for_tracebacks() -> None:
    """Let `linecache` fetch sources before it reads an empty file in their place."""
    update = linecache.updatecache

    def updatecache(filename: str, module_globals: dict[str, Any] | None = None) -> list[str]:
        file = Path(filename)
        if file.is_relative_to(_HOME) and file.is_file() and not file.stat().st_size:
            with contextlib.suppress(OSError):  # without a network: a traceback without lines
                unpack_sources()
        return update(filename, module_globals)

    linecache.updatecache = updatecache


class WholeLibrary:
    """Finds modules of Python's library that a start does not need."""

    def __init__(self, start: str) -> None:
        """Read the names of these modules from the library of a start."""
        self._start = start
        self._whole = Path("/lib/whole.zip")
        library = zipimport.zipimporter(start)
        try:
            self._names = frozenset(library.get_data(_NAMES).decode().split())
        except OSError:  # it is the whole one
            self._names = frozenset()

    def put_last(self) -> None:
        if not self._names:
            return
        sys.meta_path.append(self)
        of_start = zipimport.zipimporter.get_source

        def get_source(loader: zipimport.zipimporter, fullname: str) -> str | None:
            if loader.archive != self._start:
                return of_start(loader, fullname)
            place = self._in_whole(loader.archive, loader.prefix)
            return of_start(zipimport.zipimporter(place), fullname)

        zipimport.zipimporter.get_source = get_source  # type: ignore[assignment,method-assign]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._names:
            return None
        places = [self._start] if path is None else path
        return PathFinder.find_spec(name, [self._in_whole(one) for one in places], target)

    def _in_whole(self, place: str, prefix: str = "") -> str:
        """Return the place in the whole library, which is fetched before."""
        if not self._whole.is_file():
            self._whole.write_bytes(fetch("library"))
        return place.replace(self._start, str(self._whole)) + (f"/{prefix}" if prefix else "")
