"""The one error of exports."""

from __future__ import annotations


class ExportError(Exception):
    """A model cannot be exported as requested. The message says what to change."""
