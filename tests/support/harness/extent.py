"""The extent of a test run: the most useful tests, for every change, or all of them.

`python3 serve.py test --all`, and pytest's own `--all`, run all. By default, tests are left out
that another test covers on another device, and further random cases of the same kind.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_VARIABLE = "WEBPTE_TEST_ALL"  # a variable, because tables are filtered at import, before fixtures


def run_everything() -> None:
    """Switch to all tests, in this process and in processes that it starts."""
    os.environ[_VARIABLE] = "1"


def everything() -> bool:
    return bool(os.environ.get(_VARIABLE))


def some(usual: Sequence[T], *others: T) -> list[T]:
    """Choose parameters of a test: the usual ones, and the others if everything is to run.

    The usual ones may be among the others, and run once all the same.
    """
    return [*usual, *(other for other in others if everything() and other not in usual)]


def share(cases: Sequence[T], every: int = 3) -> list[T]:
    """Choose one of every so many parameters of a test; all of them if everything is to run.

    Of each group the choice is another place: tables repeat their options in cycles, of which
    regular steps would meet a few.
    """
    if everything():
        return list(cases)
    groups = [cases[start : start + every] for start in range(0, len(cases), every)]
    return [group[(at * 2654435761 >> 16) % len(group)] for at, group in enumerate(groups)]


def count(usual: int, of_all: int) -> int:
    """Return the number of random cases; the first cases are the same in both extents."""
    return of_all if everything() else usual
