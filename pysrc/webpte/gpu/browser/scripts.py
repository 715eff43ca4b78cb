"""JavaScript files of the package, evaluated once each."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from pyodide.code import run_js

_GPU = Path(__file__).parent.parent


@cache
def load_script(name: str) -> Any:
    """Evaluate a script of `gpu/`, such as "browser/files.js"; returns its stateless functions."""
    return run_js((_GPU / name).read_text(encoding="utf-8"))
