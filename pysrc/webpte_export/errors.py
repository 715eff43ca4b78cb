"""The one error of exports."""

from __future__ import annotations


class ExportError(Exception):
    """A model that cannot be exported as asked. The message says what to change."""
