"""Errors that end a command with a message instead of a traceback."""

from __future__ import annotations

import sys


class HostError(Exception):
    """An error that the user can act on. The message has the problem and the remedy."""


class PageLostError(HostError):
    """The page crashed or hangs, and cannot be used any more."""


class PagePythonError(Exception):
    """Python in the page raised; the message is its traceback, `summary` the last line."""

    def __init__(self, traceback: str, summary: str) -> None:
        super().__init__(traceback)
        self.summary = summary


def message_of(error: Exception) -> str | None:
    """Return an error's message for a user, for errors of webpte, here and in the page.

    Other errors are faults of webpte, and give None.
    """
    if isinstance(error, HostError):
        return str(error)
    if isinstance(error, PagePythonError):
        kind, _, message = error.summary.partition(": ")
        return message if kind.startswith("webpte.") else None
    # The package is not imported here: this Python may have no NumPy.
    package = sys.modules.get("webpte.errors")
    return str(error) if package and isinstance(error, package.WebpteError) else None
