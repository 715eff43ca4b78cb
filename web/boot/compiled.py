"""Compiled modules that come with the site, and modules of the last visit, in a browser cache."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

import js
from pyodide.ffi import JsException, to_js

from boot import bytecode
from boot.bytecode import Compiled

_CACHE = "webpte-bytecode"
_IDLE_SECONDS = 4


class CompiledModules:
    """Modules that need not be compiled; absent where neither site nor browser has them.

    compiled = CompiledModules("/webpte-bytecode", "webpte.bytecode")
    await compiled.restore()
    import ...
    compiled.keep_later()
    """

    def __init__(self, address: str, shipped: str = "") -> None:
        """Find modules in the cache by an address below the site's.

        `shipped` is the file with the modules of the site.
        """
        self._address = address
        self._shipped: Compiled = bytecode.read_file(Path(shipped)) if shipped else ({}, {})
        self._kept: Compiled | None = None  # modules of the last visit, if any
        self._generated = bytecode.Generated({})
        self._keeping: asyncio.Future[None] | None = None

    async def restore(self) -> None:
        """Put the modules in place, before they are imported."""
        found = b""
        with contextlib.suppress(JsException, AttributeError):
            cache = await js.caches.open(_CACHE)
            response = await cache.match(self._full_address)
            if response:
                found = bytes((await response.arrayBuffer()).to_bytes())
        self.put_in_place(found)

    def put_in_place(self, kept: bytes) -> None:
        """Put the modules in place; `kept` is the last visit's file, empty at the first visit."""
        sys.dont_write_bytecode = False  # modules compiled from now on are kept for the next visit
        self._kept = bytecode.unpack(kept) if kept else None
        modules, code = self._kept or ({}, {})
        self._generated = bytecode.Generated({**self._shipped[1], **code})
        bytecode.put_first(self._shipped[0], modules)

    def keep_later(self) -> None:
        """Store code that the site has not compiled once webpte is imported and Python is idle."""
        self._keeping = asyncio.ensure_future(self._keep())

    async def _keep(self) -> None:
        while "webpte" not in sys.modules:
            await asyncio.sleep(_IDLE_SECONDS)
        from webpte.engine.browser.scripts import load_script

        sys.dont_write_bytecode = True
        self._generated.end()
        await asyncio.sleep(_IDLE_SECONDS)
        modules, code = self._shipped
        every = bytecode.compiled_modules(list(sys.modules.values()))
        fresh = {name: one for name, one in every.items() if modules.get(name) != one}
        generated = {text: one for text, one in self._generated.used.items() if text not in code}
        kept = self._kept
        if kept is None or fresh != kept[0] or generated.keys() != kept[1].keys():
            packed = to_js(bytecode.pack(fresh, generated))
            await load_script("browser/keep_response.js")(_CACHE, self._full_address, packed)
        self._shipped, self._kept, self._generated.used = ({}, {}), None, {}

    @property
    def _full_address(self) -> str:
        return str(js.URL.new(self._address, js.location.origin).href)
