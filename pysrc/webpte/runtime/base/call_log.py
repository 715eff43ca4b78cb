"""Counts of a program's calls and submissions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from webpte.gpu.device import Progress
from webpte.runtime.base.call_context import CallContext
from webpte.runtime.base.lifetime import Lifetime


class CallLog:
    """The calls of each method, and the submissions of the call that ended last."""

    def __init__(self) -> None:
        self.submissions = 0
        self._calls: Counter[str] = Counter()

    def count(self, method: str) -> None:
        """Count a call that may change state."""
        self._calls[method] += 1

    def calls(self, method: str) -> int:
        """Return how often a method was called."""
        return self._calls[method]

    def context(self, progress: Progress | None = None) -> CallContext:
        """Return a context that counts the submissions of one call."""
        return CallContext(progress, self._set_submissions)

    def _set_submissions(self, count: int) -> None:
        self.submissions = count

    @contextmanager
    def calling(self, method: str, lifetime: Lifetime) -> Iterator[None]:
        """Count a call that may change state, and hold a lease while it runs."""
        self.count(method)
        with lifetime.lease(), self.context():
            yield
