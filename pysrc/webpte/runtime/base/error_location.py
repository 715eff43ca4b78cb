"""What goes wrong inside of a call, as the caller is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from webpte.errors import (
    ClosedError,
    ExecutionError,
    GraphError,
    InputError,
    WebpteError,
    retold,
)


def executing(method: str) -> AbstractContextManager[None]:
    """What goes wrong inside names the method."""
    return naming(lambda message: f"method {method!r}: {message}")


@contextmanager
def naming(place: Callable[[str], str]) -> Iterator[None]:
    """What goes wrong inside says where, as `place` makes of its message.

    Wrong inputs and closed programs say enough.
    """
    try:
        yield
    except (InputError, ClosedError):
        raise
    except Exception as error:
        raise _in_call(error, place(str(error) or type(error).__name__)) from error


def _in_call(error: Exception, message: str) -> WebpteError:
    """What the caller is to catch: a lost device is a DeviceLostError, in a call as anywhere.

    What is none of ours becomes an ExecutionError, and so does a GraphError: the file was fine
    when it was loaded, so it is this call that does not go together.
    """
    if isinstance(error, WebpteError) and not isinstance(error, GraphError):
        return retold(error, message)
    return ExecutionError(message)
