"""The rate of a transfer, and how long the rest of it takes."""

from __future__ import annotations

from collections import deque
from time import perf_counter

from page.shared.html.units import bytes_text, plural

_SECONDS = 8.0  # that the rate is measured over
_SOON = 0.5  # before there is a rate


class TransferRate:
    """The bytes per second of the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def restart(self) -> None:
        """Forget earlier measurements: after a pause, or when another file begins."""
        self._seen.clear()

    def add(self, done: int) -> None:
        """Note how many bytes there are now."""
        now = perf_counter()
        if self._seen and done < self._seen[-1][1]:
            self.restart()
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > _SECONDS:
            self._seen.popleft()

    def text(self, left: int) -> str:
        """Say how fast it is, and how long the bytes that are left take; "" if not known."""
        if len(self._seen) < 2:
            return ""
        (began, first), (ended, last) = self._seen[0], self._seen[-1]
        if ended - began < _SOON or last <= first:
            return ""
        rate = (last - first) / (ended - began)
        told = f"{bytes_text(round(rate))}/s"
        return f"{told}, {_left_text(left / rate)}" if left > 0 else told


def _left_text(seconds: float) -> str:
    """Return a duration, rounded up: 90 -> "2 minutes left"."""
    for unit, name in ((3600, "hour"), (60, "minute"), (1, "second")):
        if seconds > unit or unit == 1:
            return f"{plural(max(1, -int(-seconds // unit)), name)} left"
    return ""
