"""The one error that ends a command with a message instead of a traceback."""

from __future__ import annotations


class HostError(Exception):
    """Something the user can act on. The message says what happened and what to do."""
