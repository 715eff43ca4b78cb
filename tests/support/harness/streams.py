"""Streams that replace a terminal or a log, and can wait for output."""

from __future__ import annotations

import io
import re
import threading

from support.harness import limits


class Log(io.StringIO):
    """A log file whose content tests can wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def write(self, text: str) -> int:
        with self._changed:
            written = super().write(text)
            self._changed.notify_all()
        return written

    def wait_for(self, pattern: str) -> None:
        """Wait until the output matches a pattern."""
        with self._changed:
            found = self._changed.wait_for(
                lambda: re.search(pattern, self.getvalue()), limits.PROCESS_SECONDS
            )
        assert found, f"{pattern!r} was not written, but {self.getvalue()!r}"


class Terminal(Log):
    def isatty(self) -> bool:
        return True
