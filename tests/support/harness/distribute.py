"""Distribution of tests to processes: whole files, and the tests of some files one by one.

The tests of a file share what its fixtures prepare, so a file stays in a process.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling


class FilesAndTests(LoadFileScheduling):  # type: ignore[misc]  # pytest-xdist exports no types
    """A scheduler of whole files; `split` names the files whose tests go one by one."""

    def __init__(self, config: pytest.Config, log: Any, split: Collection[str]) -> None:
        super().__init__(config, log)
        self._split = split

    def _split_scope(self, nodeid: str) -> str:
        """Return the name of the group that a test belongs to."""
        file = nodeid.partition("::")[0]
        return nodeid if file in self._split else file
