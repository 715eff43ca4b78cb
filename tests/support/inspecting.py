"""Programs for tests that look at single calls."""

from __future__ import annotations

from inspect import signature
from typing import Any

import webpte

# Every call by itself, where one kernel may otherwise do the work of several.
APART: dict[str, Any] = {"fuse": False} if "fuse" in signature(webpte.load).parameters else {}
