"""What goes wrong inside of a call, as the caller is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from webpte.errors import ClosedError, ExecutionError, InputError


@contextmanager
def executing(method: str) -> Iterator[None]:
    """What goes wrong inside becomes an ExecutionError; a wrong input is one already."""
    try:
        yield
    except (InputError, ClosedError):
        raise
    except Exception as error:
        raise ExecutionError(f"method {method!r}: {error}") from error
