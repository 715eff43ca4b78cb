"""The package's reader of JSON, for a host that may have no NumPy.

`import webpte` needs NumPy, but `serve.py` must serve the page without it. So this module loads
that single file without importing the package.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from webpte_host.base.layout import PYSRC

if TYPE_CHECKING:
    from webpte.engine.files.json_reader import Table, parse_json, read_json, read_table
else:
    _NAME = "webpte_host._json_reader"

    def _loaded() -> Any:
        found = importlib.util.spec_from_file_location(
            _NAME, PYSRC / "webpte/engine/files/json_reader.py"
        )
        module = importlib.util.module_from_spec(found)
        sys.modules[_NAME] = module
        found.loader.exec_module(module)
        return module

    _reader = _loaded()
    Table, parse_json = _reader.Table, _reader.parse_json
    read_json, read_table = _reader.read_json, _reader.read_table

__all__ = ["Table", "parse_json", "read_json", "read_table"]
