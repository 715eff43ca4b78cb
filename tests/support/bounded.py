"""Bounds for work on hostile files: time, and an address space too small for wild allocations."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

SECONDS = 20  # for one file; it is a few milliseconds on an idle machine


class TooLong(BaseException):
    """Not an Exception: nothing on the way may turn it into one of our errors."""


@contextmanager
def bounded_work(more_bytes: int = 1 << 30) -> Iterator[None]:
    """Raises TooLong where `begin_file` was called and nothing followed for `SECONDS`."""
    old = resource.getrlimit(resource.RLIMIT_AS)
    pages = Path("/proc/self/statm")
    if pages.exists():  # only Linux tells what is in use
        in_use = int(pages.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + more_bytes, old[1]))

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TooLong

    handler = signal.signal(signal.SIGALRM, ring)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, old)


def begin_file() -> None:
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
