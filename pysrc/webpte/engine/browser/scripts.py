"""JavaScript files of the package, evaluated once each.

A page may forbid to evaluate texts; an extension of a browser always does. The npm package has the
same scripts in a module, which its worker registers as `webpte_scripts`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from pyodide.code import run_js

_PACKAGE = Path(__file__).parents[2]


@cache
def load_script(name: str, shelf: str = "engine") -> Any:
    """Return the functions of a shelf's script by its path, "browser/files.js" for example."""
    found = registered_script(f"{shelf}/{name}")
    if found is not None:
        return found
    return run_js((_PACKAGE / shelf / name).read_text(encoding="utf-8"))


def registered_script(name: str) -> Any:
    """Return the value of a worker's script or library; None if the worker lacks it."""
    try:
        from webpte_scripts import find
    except ImportError:
        return None
    return find(name)
