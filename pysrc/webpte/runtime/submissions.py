"""How often a call of a program hands work to the GPU.

Whoever runs, copies or reads back on the device calls `count_submission` once that was handed over.
The tally is that of the call in whose context this happens, so calls that overlap count apart.
Writing bytes to a buffer is no submission of its own: they go along with the next one. A long plan
may go to a browser's queue in pieces, one right after the other (see gpu/commands.js): that is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Tally:
    """The submissions of one call so far."""

    count: int = 0


_current: ContextVar[Tally | None] = ContextVar("submissions of the current call", default=None)


def count_submission() -> None:
    """Something was handed to the GPU; outside of calls nobody counts."""
    tally = _current.get()
    if tally is not None:
        tally.count += 1


@contextmanager
def tallying() -> Iterator[Tally]:
    """Count what is submitted in here, also by tasks that start in here."""
    tally = Tally()
    token = _current.set(tally)
    try:
        yield tally
    finally:
        _current.reset(token)
