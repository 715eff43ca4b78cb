"""Libraries that tokenize, and what they are kept from: numbers of any size, errors of any kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from webpte.errors import TextError, WebpteError

MAX_TOKENS = 1 << 24  # some 60 times what the largest models know

# Of Rust code that gave up in CPython. It is no Exception, so that nobody catches it by chance.
_PANIC = "PanicException"


@contextmanager
def engine_errors(who: str, what: str) -> Iterator[None]:
    """Turn whatever a library raises into a TextError: `who` `what`: the reason."""
    try:
        yield
    except WebpteError:
        raise
    except Exception as error:  # they raise nothing more special
        raise TextError(f"{who} {what}: {_reason(error)}") from error
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise TextError(f"{who} {what}: {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def check_vocabulary(numbers: Iterable[Any], name: str) -> None:
    """Raise TextError for numbers that no vocabulary has; lists are made as long as the largest."""
    for number in numbers:
        if type(number) is not int or not 0 <= number < MAX_TOKENS:
            raise TextError(
                f"{name}: {str(number)[:40]!r} is not the number of a token: those are integers "
                f"from 0 to {MAX_TOKENS - 1:,}"
            )
