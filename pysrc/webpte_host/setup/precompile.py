"""Compiles the modules of a start of the page: Python's library, NumPy, webpte, the page.

Without this, the browser would compile their sources: Python's library at every visit, for half of
the time until Python is up, and all others at the first visit. Pyodide's Python in Node compiles
them once: this machine's Node, or Playwright's. The browser compiles modules that were edited
since.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from webpte_host.base.bundle import package_bundle, page_bundle
from webpte_host.base.errors import HostError
from webpte_host.base.layout import VENV, WEB
from webpte_host.base.process import run_tool
from webpte_host.base.progress import Display

LIBRARY = "pyodide/python_stdlib.zip"
START_LIBRARY = "pyodide/start_stdlib.zip"
BYTECODE = "webpte.bytecode"
SOURCES = "webpte.sources.json"  # hashes of the sources of compiled modules, by their place
_SCRIPT = Path(__file__).with_name("precompile.mjs")
_KEY = "compiled"  # in the stamp of a runtime: a digest of the sources


def ensure_compiled(
    display: Display | None, folder: Path, stamp_path: Path, current: bool = False
) -> None:
    """Compile the modules if they are missing, or, with `current`, if sources have changed.

    If compiling fails, pages start slower, and a later start tries again.
    """
    stamp: dict[str, Any] = json.loads(stamp_path.read_text())
    is_compiled = {START_LIBRARY, BYTECODE, SOURCES} <= stamp["files"].keys()
    if LIBRARY not in stamp["files"] or (is_compiled and not current):
        return
    archives = {
        "webpte.zip": package_bundle().archive().data,
        "page.zip": page_bundle(WEB).archive().data,
    }
    digest = hashlib.sha256(b"".join(archives.values())).hexdigest()
    if is_compiled and stamp.get(_KEY) == digest:
        return
    with (display or Display()).stage("Python's modules, compiled") as stage:
        try:
            with tempfile.TemporaryDirectory(dir=folder.parent) as work:
                for name, data in archives.items():
                    Path(work, name).write_bytes(data)
                _replace(folder, {**stamp, _KEY: digest}, stamp_path, Path(work), list(archives))
        except (HostError, OSError) as error:  # a read-only checkout is served without
            why = str(error).splitlines()[-1].strip()
            stage.outcome = f"not possible here, so pages start slower ({why})"


def _replace(
    folder: Path, stamp: dict[str, Any], stamp_path: Path, work: Path, archives: list[str]
) -> None:
    made = {
        LIBRARY: work / "library.zip",
        START_LIBRARY: work / "start.zip",
        BYTECODE: work / BYTECODE,
        SOURCES: work / SOURCES,
    }
    fresh = work / stamp_path.name
    node = find_node()
    if node is None:
        raise HostError("there is no node")
    command = [node, str(_SCRIPT), str(folder / "pyodide"), *map(str, made.values()), *archives]
    run_tool(command, "compiling Python's modules", cwd=work)
    sizes = {name: path.stat().st_size for name, path in made.items()}
    fresh.write_text(json.dumps({**stamp, "files": {**stamp["files"], **sizes}}, indent=1))
    for name, path in made.items():
        os.replace(path, folder / name)
    os.replace(fresh, stamp_path)


def find_node() -> str | None:
    """Return the path of Node: this machine's, or Playwright's."""
    found = VENV.glob("[Ll]ib/**/site-packages/playwright/driver/node*")
    return shutil.which("node") or next((str(path) for path in found if path.is_file()), None)
