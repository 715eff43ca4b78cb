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


_COMPRESSED = ("pyodide.asm.wasm", "pyodide.asm.mjs")  # by most servers, which tell no plain size


def page_config(folder: Path, runtime: str = "./runtime/") -> bytes:
    """Return the configuration.

    folder   of the runtime
    runtime  its address, with a final slash
    """
    files = dict(_ARCHIVES)
    if (folder / BYTECODE).is_file():  # set-up found a Node to compile it
        files[f"{runtime}{BYTECODE}"] = f"./{BYTECODE}"
    interpreter = f"{runtime}pyodide/pyodide.mjs"
    found = {name: folder / "pyodide" / name for name in _COMPRESSED}
    sizes = {name: path.stat().st_size for name, path in found.items() if path.is_file()}
    config = {**_SETTINGS, "files": files, "interpreter": interpreter, "sizes": sizes}
    return json.dumps(config).encode()
