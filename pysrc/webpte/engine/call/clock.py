"""A clock for the stages of loading."""

from __future__ import annotations

from time import perf_counter


class Clock:
    """Milliseconds per stage."""

    def __init__(self) -> None:
        self._last = perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        now = perf_counter()
        self.laps[stage] = (now - self._last) * 1000
        self._last = now
