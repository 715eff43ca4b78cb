"""Compiles the modules of Python's library that a start of the page imports.

Pyodide ships sources only, which the browser would compile at every visit: half of the time until
Python is up. They are compiled once, by Pyodide's Python in Node: this machine's Node, or the one
that Playwright ships.
"""

from __future__ import annotations

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
_SCRIPT = Path(__file__).with_name("compile_stdlib.mjs")
_KEY = "compiled"  # in the stamp of a runtime


def ensure_compiled(display: Display | None, folder: Path, stamp_path: Path) -> None:
    """Compile the library if it is not. If that fails, pages start slower; it is retried later."""
    stamp: dict[str, Any] = json.loads(stamp_path.read_text())
    if LIBRARY not in stamp["files"] or stamp.get(_KEY):
        return
    with (display or Display()).stage("Python's library, compiled") as stage:
        try:
            with tempfile.TemporaryDirectory(dir=folder.parent) as work:
                _replace(folder, stamp, stamp_path, Path(work))
        except (HostError, OSError) as error:  # a read-only checkout is served without
            why = str(error).splitlines()[-1].strip()
            stage.outcome = f"not possible here, so pages start slower ({why})"


def _replace(folder: Path, stamp: dict[str, Any], stamp_path: Path, work: Path) -> None:
    library, fresh = work / "library.zip", work / stamp_path.name
    _compile(folder / "pyodide", library, work)
    sizes = {**stamp["files"], LIBRARY: library.stat().st_size}
    fresh.write_text(json.dumps({**stamp, "files": sizes, _KEY: True}, indent=1))
    os.replace(library, folder / LIBRARY)
    os.replace(fresh, stamp_path)


def _compile(pyodide: Path, made: Path, work: Path) -> None:
    node = _node()
    if node is None:
        raise HostError("there is no node")
    bundles = {"webpte.zip": package_bundle(), "page.zip": page_bundle(WEB)}
    for name, bundle in bundles.items():
        (work / name).write_bytes(bundle.archive().data)
    command = [node, str(_SCRIPT), str(pyodide), str(made), *bundles]
    run_tool(command, "compiling Python's library", cwd=work)


def _node() -> str | None:
    found = VENV.glob("[Ll]ib/**/site-packages/playwright/driver/node*")
    return shutil.which("node") or next((str(path) for path in found if path.is_file()), None)
