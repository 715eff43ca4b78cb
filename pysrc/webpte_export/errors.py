"""The error of exports, and the text of exporters' errors."""

from __future__ import annotations

import traceback
from pathlib import Path

_MOST_LINES = 24  # kept of an exporter's error


class ExportError(Exception):
    """A model cannot be exported as requested. The message advises a change.

    details  the text of the library that failed, `tool`; `whole` has its traceback, too
    """

    def __init__(self, message: str, tool: str = "", details: str = "", whole: str = "") -> None:
        super().__init__(message)
        self.tool, self.details, self.whole = tool, details, whole


def error_text(error: BaseException, most: int | None = _MOST_LINES) -> str:
    """Return the text of the original error, which exporters wrap in vaguer errors.

    Lines keep their indentation; a very long text is shortened, with the number of lines left out.
    """
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip()]
    if not lines and error.__traceback__ is not None:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        lines = [f"{frame.line} ({Path(frame.filename).name}, line {frame.lineno})"]
    if most is not None and len(lines) > most:
        lines[most:] = [f"... {len(lines) - most} more lines"]
    return f"{type(error).__name__}: " + "\n".join(lines).lstrip()
