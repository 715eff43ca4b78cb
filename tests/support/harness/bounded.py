"""Limits for work on hostile input: of the processor's time, and of memory that is taken at once.

Seconds are those of this process alone: a busy machine makes nothing late.
"""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

SECONDS = 20  # for one file; it is a few milliseconds as a rule
BYTES = 1 << 30


class TooLongError(BaseException):
    """Work that took too long: no Exception, so that nothing turns it into one of our errors."""


@contextmanager
def bounded_work(more_bytes: int = BYTES) -> Iterator[None]:
    """Refuse more memory, and raise TooLongError for files that `begin_file` was called for."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TooLongError

    old = resource.getrlimit(resource.RLIMIT_AS)
    pages = Path("/proc/self/statm")
    if pages.exists():  # only Linux tells what is in use
        in_use = int(pages.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + more_bytes, old[1]))
    handler = signal.signal(signal.SIGPROF, ring)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
        resource.setrlimit(resource.RLIMIT_AS, old)


def begin_file(seconds: float = SECONDS) -> None:
    """Start the time of the next file anew."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


@contextmanager
def bounded(seconds: float, room: int = BYTES) -> Iterator[None]:
    """Raise TooLongError after `seconds`, and MemoryError for what is larger than `room`."""
    with bounded_work(room):
        begin_file(seconds)
        yield
