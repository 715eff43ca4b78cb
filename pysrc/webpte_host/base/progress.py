"""Progress of long stages, updated at least once a second.

On a terminal a stage is a line, rewritten in place. Elsewhere (a log file, CI) a percentage or a
dot is appended to the line every second.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

_CLEAR_LINE = "\r\x1b[K"
_TERMINAL_SECONDS = 0.2
_PLAIN_SECONDS = 1.0


def megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


class Stage:
    """The state of a stage. The work reports through `done` and `outcome`; a thread draws."""

    def __init__(self, title: str, total: int, measure: Callable[[], int] | None) -> None:
        self.title = title
        self.total = total
        self.done = 0
        self.outcome = "done"
        self._measure = measure
        self._started = time.monotonic()

    def refresh(self) -> None:
        if self._measure is not None:
            self.done = max(self.done, self._measure())

    def seconds(self) -> float:
        return time.monotonic() - self._started

    def percent(self) -> int | None:
        # Never 100 before the stage has ended: the total may be an estimate.
        return min(99, self.done * 100 // self.total) if self.total and self.done else None

    def status(self) -> str:
        parts = []
        percent = self.percent()
        if percent is not None:
            parts.append(f"{percent}%  {megabytes(self.done)} of {megabytes(self.total)}")
        elif self.done:
            parts.append(megabytes(self.done))
        parts.append(f"{self.seconds():.0f} s")
        return "  ".join(parts)


class Display:
    """The drawing of stages on a stream."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._tty = self._stream.isatty()

    def line(self, text: str) -> None:
        self._write(text + "\n")

    @contextmanager
    def stage(
        self, title: str, *, total: int = 0, measure: Callable[[], int] | None = None
    ) -> Iterator[Stage]:
        """A stage of unknown length, or of `total` bytes; `measure` is polled for bytes done."""
        stage = Stage(title, total, measure)
        stop = threading.Event()
        self._write(f"  {title} ..." if self._tty else f"  {title}:")
        ticker = threading.Thread(target=self._tick, args=(stage, stop), daemon=True)
        ticker.start()
        try:
            yield stage
        except BaseException as error:
            stage.outcome = "failed" if isinstance(error, Exception) else "stopped"
            raise
        finally:
            stop.set()
            ticker.join()
            self._finish(stage)

    def _tick(self, stage: Stage, stop: threading.Event) -> None:
        shown: int | None = None
        while not stop.wait(_TERMINAL_SECONDS if self._tty else _PLAIN_SECONDS):
            stage.refresh()
            if self._tty:
                self._write(f"{_CLEAR_LINE}  {stage.title} ... {stage.status()}")
                continue
            percent = stage.percent()
            self._write(" ." if percent is None or percent == shown else f" {percent}%")
            shown = percent

    def _finish(self, stage: Stage) -> None:
        prefix = f"{_CLEAR_LINE}  {stage.title}:" if self._tty else ""
        self._write(f"{prefix} {stage.outcome} ({stage.seconds():.1f} s)\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
