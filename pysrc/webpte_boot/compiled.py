"""Compiled modules of the last visit, in a cache of the browser."""

from __future__ import annotations

import asyncio
import contextlib
import sys

import js
from pyodide.ffi import JsException, to_js

from webpte_boot import bytecode

_CACHE = "webpte-bytecode"
_IDLE_SECONDS = 4


class CompiledModules:
    """Compiled modules of the last visit; none where a browser keeps no cache.

    compiled = CompiledModules("/webpte-bytecode")
    await compiled.restore()
    import ...
    compiled.keep_later()
    """

    def __init__(self, address: str) -> None:
        """`address` names them in the cache; it is below the address of the site."""
        self._address = address
        self._restored: dict[str, bytecode.Module] = {}
        self._generated = bytecode.Generated({})
        self._keeping: asyncio.Future[None] | None = None

    async def restore(self) -> None:
        """Put the modules in place, before they are imported."""
        sys.dont_write_bytecode = False  # modules compiled from now on are kept for the next visit
        with contextlib.suppress(JsException, AttributeError):
            cache = await js.caches.open(_CACHE)
            found = await cache.match(self._full_address)
            if found:
                kept = bytecode.unpack(bytes((await found.arrayBuffer()).to_bytes()))
                self._restored, self._generated = kept[0], bytecode.Generated(kept[1])
                bytecode.put_first(self._restored)

    def keep_later(self) -> None:
        """Store the modules once webpte is imported and Python is idle."""
        self._keeping = asyncio.ensure_future(self._keep())

    async def _keep(self) -> None:
        while "webpte" not in sys.modules:
            await asyncio.sleep(_IDLE_SECONDS)
        from webpte.gpu.browser.scripts import load_script

        sys.dont_write_bytecode = True
        self._generated.end()
        await asyncio.sleep(_IDLE_SECONDS)
        modules = bytecode.compiled_modules(list(sys.modules.values()))
        if modules != self._restored or not self._generated.is_kept:
            packed = to_js(bytecode.pack(modules, self._generated.used))
            await load_script("browser/keep_response.js")(_CACHE, self._full_address, packed)
        self._restored, self._generated.used = {}, {}

    @property
    def _full_address(self) -> str:
        return str(js.URL.new(self._address, js.location.origin).href)
