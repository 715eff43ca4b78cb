"""`python.json`: the files that the page's Python is started with, relative to its own address."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from webpte_host.base.bundle import Bundle
from webpte_host.setup.precompile import BYTECODE, LIBRARY, START_LIBRARY

CONFIG = "python.json"
START, SOURCE_ARCHIVE = "start.zip", "sources.zip"  # see bundle.py
_PACKAGES = ("numpy", "flatbuffers")


def page_config(
    folder: Path, start: Bundle, version: str = "", runtime: str = "./runtime/"
) -> bytes:
    """Return the configuration.

    folder   of the runtime
    start    the archive of the start, beside it
    version  of the runtime
    runtime  its address, with a final slash
    """
    digest = hashlib.sha256(version.encode() + start.archive().data)
    library = START_LIBRARY if (folder / START_LIBRARY).is_file() else LIBRARY
    later = {"library": f"{runtime}{LIBRARY}", "sources": f"./{SOURCE_ARCHIVE}"}
    config = {
        "interpreter": f"{runtime}pyodide/pyodide.mjs",
        "library": f"{runtime}{library}",
        "packages": _PACKAGES,
        "archive": f"./{START}",
        "later": later,  # see boot/later.py
        "bytecode": f"{runtime}{BYTECODE}" if (folder / BYTECODE).is_file() else None,
        # What is kept of a start of this version serves no other.
        "version": digest.hexdigest()[:16],
    }
    return json.dumps(config).encode()
