"""Errors of files next to a program: does the file not exist, or could it not be read?"""

from __future__ import annotations

import pytest

from webpte.engine.open.siblings import is_missing
from webpte.errors import SourceError


class JsError(Exception):
    """Stands for an exception of JavaScript, which has its name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name}: of JavaScript")
        self.name = name


@pytest.mark.parametrize(
    ("told", "cause", "missing"),
    [
        ("a.json: the server answered 404 Not Found", JsError("Error"), True),
        ("a.json: the server answered 500", JsError("Error"), False),
        ("a.json: Failed to fetch", JsError("TypeError"), True),  # offline, or blocked
        ("a.json: the operation was aborted", JsError("AbortError"), False),  # a copy on the disk
        ("a.json: a file could not be found", JsError("NotFoundError"), False),
        ("a.json", FileNotFoundError(), True),
        ("a.json", PermissionError(), False),
    ],
)
def test_missing_is_what_does_not_exist(told: str, cause: Exception, missing: bool) -> None:
    error = SourceError(told)
    error.__cause__ = cause
    assert is_missing(error) is missing
