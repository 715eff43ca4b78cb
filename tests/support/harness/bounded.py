"""Limits of CPU time and memory for work on hostile input.

Seconds are CPU time of this process, so that a busy machine does not matter.
"""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

SECONDS = 20  # for one file, which usually takes a few milliseconds
BYTES = 1 << 30


class TooLongError(BaseException):
    """Work took too long. Not an Exception, so that nothing turns it into one of our errors."""


@contextmanager
def bounded_work(more_bytes: int = BYTES) -> Iterator[None]:
    """Limits for many files: memory, and the time since the last `begin_file`."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TooLongError

    old = resource.getrlimit(resource.RLIMIT_AS)
    pages = Path("/proc/self/statm")
    if pages.exists():  # only Linux reports the memory in use
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
    """Restart the clock for the next file."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


@contextmanager
def bounded(seconds: float, room: int = BYTES) -> Iterator[None]:
    """Limits for one task: TooLongError after `seconds`, MemoryError beyond `room` bytes."""
    with bounded_work(room):
        begin_file(seconds)
        yield
