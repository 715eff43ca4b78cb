"""Errors that end a command with a message instead of a traceback."""

from __future__ import annotations

import sys


class HostError(Exception):
    """Something the user can act on. The message says what happened and what to do."""


class PageLostError(HostError):
    """The page crashed or hangs, and cannot be used any more."""


class PagePythonError(Exception):
    """Python in the page raised; the message is its traceback, `summary` the last line."""

    def __init__(self, traceback: str, summary: str) -> None:
        super().__init__(traceback)
        self.summary = summary


def message_of(error: Exception) -> str | None:
    """Return what an error tells a user: those of webpte do, here and in the page.

    None is for all others, which are faults of webpte.
    """
    if isinstance(error, HostError):
        return str(error)
    if isinstance(error, PagePythonError):
        kind, _, message = error.summary.partition(": ")
        return message if kind.startswith("webpte.") else None
    # The package is not imported here: this Python may have no NumPy.
    package = sys.modules.get("webpte.errors")
    return str(error) if package and isinstance(error, package.WebpteError) else None
