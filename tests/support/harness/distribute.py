"""Distribution of tests to processes: whole files, and the tests of some files one by one.

The tests of a file share its fixtures, so a file stays in a process. Each process collects all
tests: in a new checkout one after the other, because the first compiles them for all.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

# Files whose tests are independent and long: each test may run in another process.
SPLIT = ("tests/unit/schedules/test_random_schedules.py",)
# While this file is not compiled, a new checkout is being collected.
COLLECTED_LATE = "tests/unit/web/views/test_train_view.py"


class FilesAndTests(LoadFileScheduling):  # type: ignore[misc]
    """A scheduler of whole files, and of single tests of the files in SPLIT."""

    def _split_scope(self, nodeid: str) -> str:
        """Return the name of the group that a test belongs to."""
        file = nodeid.partition("::")[0]
        return nodeid if file in SPLIT else file


def is_compiled(test: Path) -> bool:
    """Tell whether pytest has compiled a file of tests before, at any version of the file."""
    folder = Path(importlib.util.cache_from_source(str(test))).parent
    return any(folder.glob(f"{test.stem}.*-pytest-*"))


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Wait while another process is in this context; leave it even if the process is killed."""
    try:
        import fcntl
    except ImportError:  # on Windows
        yield
        return
    with Path(__file__).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
