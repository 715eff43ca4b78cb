"""The page's modules are not installed anywhere: the browser fetches them from web/."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
for folder in (ROOT / "web", ROOT / "pysrc"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
