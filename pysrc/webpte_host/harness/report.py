"""The output of `verify` while it runs: a line of progress, and a line per failure.

The line of progress shows the current case's stage, if known, and its duration.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import Any, TextIO

_CLEAR_LINE = "\r\x1b[K"
_PLAIN_SECONDS = 5.0
_MANY = 10_000  # a larger total is a number of bytes, a smaller one counts pieces of work


def describe(stage: str, done: int, total: int) -> str:
    """Describe a report of progress: counts as numbers, bytes as a percentage."""
    return f"{stage} {100 * done // total}%" if total > _MANY else f"{stage} {done} of {total}"


class Report:
    """The results so far. On a terminal the progress line is rewritten in place every second."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self.results: list[dict[str, Any]] = []
        self._total = total
        self._stream = stream or sys.stdout
        self._tty = self._stream.isatty()
        self._case = self._doing = ""
        self._case_started = 0.0
        self._started = self._last_plain = time.monotonic()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    @property
    def passed(self) -> int:
        return sum(result["verdict"] == "passed" for result in self.results)

    @property
    def failed(self) -> int:
        return len(self.results) - self.passed

    def begin(self, case: str) -> None:
        with self._lock:
            self._case, self._doing = case, ""
            self._case_started = time.monotonic()

    def show(self, doing: str) -> None:
        """Show the stage of the current case."""
        with self._lock:
            self._doing = doing

    def add(self, result: dict[str, Any]) -> None:
        with self._lock:
            self.results.append(result)
            if result["verdict"] != "passed":
                text = " ".join(str(result["error"]).split())
                variant = f" ({result['variant']})" if "variant" in result else ""
                self._write(f"FAILED {result['op']}__{result['case']}{variant}: {text}\n")

    def __enter__(self) -> Report:
        self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._ticker.join()
        if self._tty:
            self._write("")

    def _tick(self) -> None:
        while not self._stop.wait(0.2):
            with self._lock:
                line = self._line()
                if self._tty:
                    width = shutil.get_terminal_size().columns
                    self._stream.write(f"{_CLEAR_LINE}{line[: width - 1]}")
                    self._stream.flush()
                elif time.monotonic() - self._last_plain >= _PLAIN_SECONDS:
                    self._last_plain = time.monotonic()
                    self._write(line + "\n")

    def _line(self) -> str:
        now = time.monotonic()
        done, took = len(self.results), now - self._case_started
        line = f"{done}/{self._total}  {self.failed} failed  {now - self._started:.0f} s  "
        doing = f": {self._doing}, {took:.0f} s" if self._doing else ""
        return line + self._case + doing

    def _write(self, text: str) -> None:
        self._stream.write((_CLEAR_LINE if self._tty else "") + text)
        self._stream.flush()
