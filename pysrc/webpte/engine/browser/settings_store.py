"""Small texts in the browser's Cache API, which workers have, too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import js
from pyodide.ffi import JsException

from webpte.engine.browser.scripts import load_script

_CACHE = "webpte-settings"
# Node has no Cache API, and a page in a frame may not use it.
_REFUSED = (AttributeError, JsException)


class BrowserStore:
    """A text stored by name. If the browser refuses to store it, nothing happens."""

    def __init__(self, name: str) -> None:
        self._url = f"/webpte-settings/{name}"

    async def read(self) -> str:
        """Read the text; empty if nothing is stored."""
        try:
            reply = await (await _cache()).match(self._url)
            return str(await reply.text()) if reply else ""
        except _REFUSED:
            return ""

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Keep other tabs from changing this text inside the context."""
        release = await load_script("browser/web_locks.js").acquire(self._url)
        try:
            yield
        finally:
            release()

    async def write(self, text: str) -> None:
        await load_script("browser/keep_response.js")(_CACHE, self._url, text)


async def _cache() -> Any:
    """Open the cache on every use: only opening shows whether the browser allows it."""
    return await js.caches.open(_CACHE)
