"""Limits for tests of hostile input: of time, and of memory that is made at once."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

BYTES = 1 << 30


class TooLongError(BaseException):
    """A block that took too long: no Exception, so that nothing turns it into one of our errors."""


@contextmanager
def bounded(seconds: float, room: int = BYTES) -> Iterator[None]:
    """Raise TooLongError after `seconds`, and MemoryError for what is larger than `room`."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TooLongError

    old = resource.getrlimit(resource.RLIMIT_AS)
    pages = Path("/proc/self/statm")
    if pages.exists():  # only Linux tells what is in use
        in_use = int(pages.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + room, old[1]))
    handler = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, old)
