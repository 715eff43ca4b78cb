"""Locations in the errors of calls: the method, and the step of it that failed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from webpte.errors import ClosedError, ExecutionError, GraphError, InputError, located


def executing(method: str) -> AbstractContextManager[None]:
    """Name the method in errors that are raised inside."""
    return located_in_call(lambda message: f"method {method!r}: {message}")


def located_in_call(place: Callable[[str], str]) -> AbstractContextManager[None]:
    """Add a location to errors that are raised inside, as `place` does to a message.

    Wrong inputs and closed programs say enough. A GraphError becomes an ExecutionError: the file
    was fine when it was loaded, so the inputs of this call do not suit it.
    """
    return located(
        lambda error: place(str(error) or type(error).__name__),
        ExecutionError,
        converted=(GraphError,),
        untouched=(InputError, ClosedError),
    )
