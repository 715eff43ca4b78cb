"""Guards around tokenizer libraries: limits of token numbers, and a single type of error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from webpte.errors import TextError, WebpteError

MAX_TOKENS = 1 << 24  # some 60 times the largest vocabulary

# Raised by Rust code that panics in CPython; it is not derived from Exception.
_PANIC = "PanicException"


@contextmanager
def engine_errors(who: str, what: str) -> Iterator[None]:
    """Turn any error of a library into a TextError: `who`, the activity, and the reason."""
    try:
        yield
    except WebpteError:
        raise
    except Exception as error:  # the libraries have no error types
        raise TextError(f"{who} {what}: {_reason(error)}") from error
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise TextError(f"{who} {what}: {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def check_vocabulary(numbers: Iterable[Any], name: str) -> None:
    """Raise TextError for numbers out of range: lists are allocated up to the largest number."""
    for number in numbers:
        if type(number) is not int or not 0 <= number < MAX_TOKENS:
            raise TextError(
                f"{name}: {str(number)[:40]!r} is not the number of a token: those are integers "
                f"from 0 to {MAX_TOKENS - 1:,}"
            )
