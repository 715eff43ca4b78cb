"""`pyscript.json`: the files that PyScript fetches for the page, relative to the page's address."""

from __future__ import annotations

import json
from pathlib import Path

from webpte_host.setup.precompile import BYTECODE

_SETTINGS = {
    "name": "webpte",
    "packages": ["numpy", "flatbuffers"],
    "packages_cache": "passthrough",
    "sync_main_only": True,  # the worker only exchanges messages, so it needs no shared memory
}
_ARCHIVES = {"./webpte.zip": "./*", "./page.zip": "./*"}  # see bundle.py; unpacked


def page_config(folder: Path, runtime: str = "./runtime/") -> bytes:
    """Return the configuration.

    folder   of the runtime
    runtime  its address, with a final slash
    """
    files = dict(_ARCHIVES)
    if (folder / BYTECODE).is_file():  # set-up found a Node to compile it
        files[f"{runtime}{BYTECODE}"] = f"./{BYTECODE}"
    interpreter = f"{runtime}pyodide/pyodide.mjs"
    return json.dumps({**_SETTINGS, "files": files, "interpreter": interpreter}).encode()
