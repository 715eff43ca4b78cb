"""`pyscript.json`: the files that PyScript fetches for the page, relative to its own address."""

from __future__ import annotations

import json

_SETTINGS = {
    "name": "webpte",
    "packages": ["numpy", "flatbuffers"],
    "packages_cache": "passthrough",
    "sync_main_only": True,  # the worker only exchanges messages, so it needs no shared memory
    "files": {"./webpte.zip": "./*", "./page.zip": "./*"},  # archives (see bundle.py), unpacked
}


def page_config(runtime: str = "./runtime/") -> bytes:
    """Return the configuration; `runtime` is the address of the runtime, with a final slash."""
    return json.dumps({**_SETTINGS, "interpreter": f"{runtime}pyodide/pyodide.mjs"}).encode()
