"""How often a call of a program hands work to the GPU.

Whoever runs, copies or reads back on the device calls `count_submission` once that was handed over.
The tally is that of the call in whose context this happens, so calls that overlap count apart.
Writing bytes to a buffer is no submission of its own: they go along with the next one. A long plan
may go to a browser's queue in pieces, one right after the other (see chunked_encoder.js): that is
one submission.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token


class Tally(AbstractContextManager["Tally"]):
    """The submissions of one call so far; `told` hears how many there were when it has ended."""

    def __init__(self, told: Callable[[int], None] | None = None) -> None:
        self.count = 0
        self._told = told
        self._token: Token[Tally | None] | None = None

    def __enter__(self) -> Tally:
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        _current.reset(self._token)
        if self._told is not None:
            self._told(self.count)


_current: ContextVar[Tally | None] = ContextVar("submissions of the current call", default=None)


def count_submission() -> None:
    """Something was handed to the GPU; outside of calls nobody counts."""
    tally = _current.get()
    if tally is not None:
        tally.count += 1


def tallying(told: Callable[[int], None] | None = None) -> Tally:
    """Count what is submitted inside of the `with` block, also by tasks that start in there."""
    return Tally(told)
