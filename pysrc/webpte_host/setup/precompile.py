"""Compiles the modules that a start of the page imports: Python's library, NumPy, webpte, the page.

There are only their sources, which the browser would compile: Python's library at every visit, half
of the time until Python is up, and all others at the first. They are compiled once, by Pyodide's
Python in Node: this machine's Node, or the one that Playwright ships. Modules that were edited
since are compiled by the browser.
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
BYTECODE = "webpte.bytecode"
_SCRIPT = Path(__file__).with_name("precompile.mjs")
_KEY = "compiled"  # in the stamp of a runtime: a digest of the sources


def ensure_compiled(
    display: Display | None, folder: Path, stamp_path: Path, current: bool = False
) -> None:
    """Compile the modules if they are not, or, for `current` ones, if sources have changed.

    If that fails, pages start slower; it is retried later.
    """
    stamp: dict[str, Any] = json.loads(stamp_path.read_text())
    if LIBRARY not in stamp["files"] or (BYTECODE in stamp["files"] and not current):
        return
    archives = {
        "webpte.zip": package_bundle().archive().data,
        "page.zip": page_bundle(WEB).archive().data,
    }
    digest = hashlib.sha256(b"".join(archives.values())).hexdigest()
    if BYTECODE in stamp["files"] and stamp.get(_KEY) == digest:
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
    made = {LIBRARY: work / "library.zip", BYTECODE: work / BYTECODE}
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
    """Return the path of Node: this machine's, or the one that comes with Playwright."""
    found = VENV.glob("[Ll]ib/**/site-packages/playwright/driver/node*")
    return shutil.which("node") or next((str(path) for path in found if path.is_file()), None)
