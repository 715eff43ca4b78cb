"""Counts of a program's calls and submissions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from webpte.runtime.base.lifetime import Lifetime
from webpte.runtime.base.submissions import Tally, tallying


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

    def tally(self) -> Tally:
        """Return a context that counts the submissions of one call."""
        return tallying(self._note)

    def _note(self, submissions: int) -> None:
        self.submissions = submissions

    @contextmanager
    def calling(self, method: str, lifetime: Lifetime) -> Iterator[None]:
        """Count a call that may change state, and hold a lease while it runs."""
        self.count(method)
        with lifetime.lease(), self.tally():
            yield
