"""Descriptions of commands for `--help`."""

from __future__ import annotations


def described(doc: str | None) -> str:
    """Return a module's docstring, "`serve.py NAME`: does this.", without its first words."""
    text = (doc or "").split(": ", 1)[-1]
    return text[:1].upper() + text[1:]
