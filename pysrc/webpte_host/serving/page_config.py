"""`pyscript.json`: what PyScript fetches for the page. Addresses in it are relative to its own."""

from __future__ import annotations

import json

_SETTINGS = {
    "name": "webpte",
    "packages": ["numpy", "flatbuffers"],
    "packages_cache": "passthrough",
    "files": {"./webpte.zip": "./*", "./page.zip": "./*"},  # archives (see bundle.py), unpacked
}


def page_config(runtime: str = "./runtime/") -> bytes:
    """`runtime` is where the browser runtime is, with a slash at its end."""
    return json.dumps({**_SETTINGS, "interpreter": f"{runtime}pyodide/pyodide.mjs"}).encode()
