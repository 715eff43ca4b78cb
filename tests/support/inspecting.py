"""Programs for tests that look at single calls."""

from __future__ import annotations

from typing import Any

# Every call by itself, where one kernel may otherwise do the work of several.
APART: dict[str, Any] = {"fuse": False}
