"""Kernels that work on a program has to wait for, in the line that says what goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from page.html.units import count_text

_PATIENCE_SECONDS = 0.4  # most kernels are there in a moment, and then nothing flickers
_REDRAW_SECONDS = 0.25


class Compiling:
    """Says so while it lasts: "Answering: compiling kernels, 3 of 12".

    told   what the line says without that
    show   puts a text into the line
    """

    def __init__(self, told: Callable[[], str], show: Callable[[str], None]) -> None:
        self._told, self._show = told, show
        self._done = self._total = 0
        self._next: asyncio.TimerHandle | None = None
        self._shown = False

    def progress(self, stage: str, done: int, total: int) -> None:
        self._done, self._total = int(done), int(total)
        if self._done == self._total:
            self.end()
        elif self._next is None:
            self._wait(_PATIENCE_SECONDS)

    def end(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if self._shown:
            self._shown = False
            self._show(self._told())

    def _wait(self, seconds: float) -> None:
        self._next = asyncio.get_running_loop().call_later(seconds, self._draw)

    def _draw(self) -> None:
        self._shown = True
        of = f"{count_text(self._done)} of {count_text(self._total)}"
        self._show(f"{self._told()}: compiling kernels, {of}")
        self._wait(_REDRAW_SECONDS)
