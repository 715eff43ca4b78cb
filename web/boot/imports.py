"""The imports of a start of the page. A snapshot of Python's memory is taken after them."""

from __future__ import annotations

import gc
import importlib
import random
import sys
from pathlib import Path

from boot.compiled import CompiledModules
from boot.later import WholeLibrary, fetch_for_tracebacks

_MODULES = (
    "page.app",
    "page.browser",
    "webpte.engine.browser.scripts",
    "webpte.engine.gpu.webgpu.device",
)
_SHIPPED = "webpte.bytecode"
compiled = CompiledModules("/webpte-bytecode", _SHIPPED)


def import_all() -> None:
    """Import everything, from compiled modules where the browser has kept some."""
    WholeLibrary(next(place for place in sys.path if place.endswith(".zip"))).put_last()
    fetch_for_tracebacks()
    kept = Path("webpte.kept")
    compiled.put_in_place(kept.read_bytes())
    for read in (kept, Path(_SHIPPED)):
        read.unlink(missing_ok=True)
    import_modules()


def import_modules() -> None:
    for name in _MODULES:
        importlib.import_module(name)
    importlib.import_module("page.views").find_views()


def settle() -> None:
    """Let go of objects of the browser that imports have left: a snapshot cannot have them."""
    gc.collect()


def wake() -> None:
    """Renew chance and caches of folders, in memory of an earlier start."""
    random.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    importlib.invalidate_caches()
