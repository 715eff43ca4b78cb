"""Stores the configs that `Program.tune` chose: in the browser's storage, or natively in a file.

Both hold JSON: {"adapter and version": {"tunable": "label"}}. The file is `tuning.json` in the
user's cache folder, or the file that WEBPTE_TUNING names; if that is set to "", or the user has no
home folder, nothing is kept.
"""

from __future__ import annotations

import contextlib
import json
import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from webpte.engine.browser import IN_BROWSER
from webpte.engine.files.json_reader import parse_table
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.ops.core.target import TunedConfigs
from webpte.errors import SourceError

VARIABLE = "WEBPTE_TUNING"
VERSION = "1"  # version of the kernels' tile configs: measurements of other versions do not apply

Table = dict[str, dict[str, str]]


class Store(Protocol):
    """A text that outlives the process; empty before the first write."""

    async def read(self) -> str: ...

    async def write(self, text: str) -> None: ...

    def locked(self) -> AbstractAsyncContextManager[None]:
        """Return a context in which no other tab or task reads or writes the text."""
        ...


class FileStore:
    def __init__(self, path: Path) -> None:
        self._path = path

    def locked(self) -> AbstractAsyncContextManager[None]:
        return contextlib.nullcontext()  # no await lies between reading and writing a file

    async def read(self) -> str:
        try:
            return self._path.read_text("utf-8")
        except (OSError, ValueError):  # not UTF-8
            return ""

    async def write(self, text: str) -> None:
        """Replace the file in one step: another process may read it at any time."""
        temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(text, "utf-8")
            temporary.replace(self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()  # half written, on a full disk
            raise SourceError(
                f"{self._path}: what tuning found could not be kept ({error.strerror}); the "
                f"program uses it all the same. {VARIABLE} names another file"
            ) from error


def _store(info: DeviceInfo) -> Store | None:
    if IN_BROWSER and info.kind == "webgpu":
        from webpte.engine.browser.settings_store import BrowserStore

        return BrowserStore("tuning.json")
    named = os.environ.get(VARIABLE)
    if info.kind != "native" or named == "":
        return None
    if named:
        return FileStore(Path(named))
    cache = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = Path(cache) if cache else Path.home() / ".cache"
    except RuntimeError:  # a container whose user has no home
        return None
    return FileStore(folder / "webpte" / "tuning.json")


def adapter_key(info: DeviceInfo) -> str:
    return " ".join([info.kind, info.vendor, info.architecture, info.description, VERSION])


async def kept_choices(info: DeviceInfo) -> TunedConfigs:
    """Return the configs that are stored for an adapter; () if no configs can be read."""
    return tuple(sorted((await _table(_store(info))).get(adapter_key(info), {}).items()))


async def keep_choices(info: DeviceInfo, choices: TunedConfigs) -> None:
    """Add configs to the stored configs of an adapter."""
    store = _store(info)
    if store is None:
        return
    async with store.locked():
        table = await _table(store)
        table[adapter_key(info)] = {**table.get(adapter_key(info), {}), **dict(choices)}
        await store.write(json.dumps(table, indent=1, sort_keys=True) + "\n")


async def _table(store: Store | None) -> Table:
    """Parse stored configs; a text that is not a table of labels counts as empty."""
    try:
        found = parse_table(await store.read() if store else "", "tuning.json", ValueError)
    except ValueError:
        return {}
    rows = {key: row for key, row in found.content.items() if isinstance(row, dict)}
    return {
        key: {k: label for k, label in row.items() if isinstance(label, str)}
        for key, row in rows.items()
    }
