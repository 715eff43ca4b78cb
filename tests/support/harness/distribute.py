"""Distribution of tests to processes: whole files, and the tests of some files one by one.

The tests of a file share its fixtures, so a file stays in a process.
"""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

# Files whose tests are independent and long: each test may run in another process.
SPLIT = ("tests/unit/schedules/test_random_schedules.py",)


class FilesAndTests(LoadFileScheduling):  # type: ignore[misc]
    """A scheduler of whole files, and of single tests of the files in SPLIT."""

    def _split_scope(self, nodeid: str) -> str:
        """Return the name of the group that a test belongs to."""
        file = nodeid.partition("::")[0]
        return nodeid if file in SPLIT else file
