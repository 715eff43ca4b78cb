"""Limits on how often something is drawn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from time import perf_counter

REDRAW_SECONDS = 0.08  # between two drawings of a running figure
PATIENCE_SECONDS = 0.4  # before a wait is shown: shorter ones show nothing, and nothing flickers
TICK_SECONDS = 0.25  # between two drawings of how long a wait takes


class Throttle:
    """A limit on how often a figure that changes all the time is drawn."""

    def __init__(self, seconds: float = REDRAW_SECONDS) -> None:
        self._seconds = seconds
        self._last = -inf

    def ready(self, force: bool = False) -> bool:
        """Tell whether to draw now; if so, or with `force`, the next pause begins."""
        if not force and perf_counter() - self._last <= self._seconds:
            return False
        self.restart()
        return True

    def restart(self) -> None:
        """Begin the pause anew: for drawings that take long themselves."""
        self._last = perf_counter()


class Ticker:
    """A timer that calls `draw` once it has waited long enough, and then again and again."""

    def __init__(self, draw: Callable[[], None]) -> None:
        self._draw = draw
        self._timer: asyncio.TimerHandle | None = None
        self._drawn = False

    def start(self) -> None:
        """Start to wait, unless it does already."""
        if self._timer is None:
            self._drawn = False
            self._wait(PATIENCE_SECONDS)

    def stop(self) -> bool:
        """Stop, and return whether anything was drawn that has to be cleared."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        drawn, self._drawn = self._drawn, False
        return drawn

    def _wait(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._tick)

    def _tick(self) -> None:
        self._drawn = True
        self._draw()
        self._wait(TICK_SECONDS)
