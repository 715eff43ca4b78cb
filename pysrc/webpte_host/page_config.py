"""`pyscript.json`: what PyScript fetches for the page, made from what is in the page's folder.

A module that is put into `page/`, at any depth, is in the list: there is none to keep by hand.
"""

from __future__ import annotations

import json
from pathlib import Path

_SETTINGS = {
    "name": "webpte",
    "interpreter": "./runtime/pyodide/pyodide.mjs",
    "packages": ["numpy", "flatbuffers"],
    "packages_cache": "passthrough",
}
_PACKAGE = "page"


def page_config(web: Path) -> bytes:
    """The configuration for the page in `web`, whose addresses are relative to it."""
    modules = sorted(
        path.relative_to(web)
        for path in (web / _PACKAGE).rglob("*.py")
        if not any(part.startswith(".") for part in path.relative_to(web).parts)
    )
    files = {"./webpte.zip": "./*"}
    files |= {f"./{path.as_posix()}": f"./{path.parent.as_posix()}/" for path in modules}
    return json.dumps({**_SETTINGS, "files": files}, indent=2).encode()
