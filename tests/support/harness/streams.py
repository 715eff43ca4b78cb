"""Streams that stand in for a terminal or a log, and tell when something was written."""

from __future__ import annotations

import io
import re
import threading

from support.harness import limits


class Log(io.StringIO):
    """A log file: tests wait for what shall be in it, and for nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def write(self, text: str) -> int:
        with self._changed:
            written = super().write(text)
            self._changed.notify_all()
        return written

    def wait_for(self, pattern: str) -> None:
        """Until what was written has a part that matches."""
        with self._changed:
            found = self._changed.wait_for(
                lambda: re.search(pattern, self.getvalue()), limits.PROCESS_SECONDS
            )
        assert found, f"{pattern!r} was not written, but {self.getvalue()!r}"


class Terminal(Log):
    def isatty(self) -> bool:
        return True
