"""Who is told how far a call is, while it makes a plan for shapes that are new.

It is that of the call in whose context this happens, so calls that overlap are told apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from webpte.gpu.device import Progress

_current: ContextVar[Progress | None] = ContextVar("progress of the current call", default=None)


def call_progress() -> Progress | None:
    """What the current call reports to, if anything."""
    return _current.get()


def reporting(progress: Progress | None) -> AbstractContextManager[None]:
    """Whatever is prepared inside of the `with` block reports to `progress`; without one, to whom
    it would have reported outside of it."""
    return nullcontext() if progress is None else _reporting(progress)


@contextmanager
def _reporting(progress: Progress) -> Iterator[None]:
    token = _current.set(progress)
    try:
        yield
    finally:
        _current.reset(token)
