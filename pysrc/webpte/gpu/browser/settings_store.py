"""A small text in the browser's storage that workers have, too: its cache of replies."""

from __future__ import annotations

from typing import Any

import js
from pyodide.ffi import JsException

from webpte.gpu.browser.scripts import load_script

_CACHE = "webpte-settings"
# Node has no such storage, and a page in a frame may be refused it.
_REFUSED = (AttributeError, JsException)


class BrowserStore:
    """One text by name. Where a browser refuses to store, nothing is kept, and nothing fails."""

    def __init__(self, name: str) -> None:
        self._url = f"/webpte-settings/{name}"

    async def read(self) -> str:
        """Empty if there is none."""
        try:
            reply = await (await _cache()).match(self._url)
            return str(await reply.text()) if reply else ""
        except _REFUSED:
            return ""

    async def write(self, text: str) -> None:
        await load_script("browser/keep_response.js")(_CACHE, self._url, text)


async def _cache() -> Any:
    """Asked for anew each time: whether it is there is known only then."""
    return await js.caches.open(_CACHE)
