"""How much runs: what tells most, which is what every change is tested with, or everything.

`python3 serve.py test --all`, and pytest's own `--all`, run everything. What is left out otherwise
is what another test runs in the same way elsewhere, and further random cases of the same kind.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_VARIABLE = "WEBPTE_TEST_ALL"  # tables are chosen from at import, where no fixture is at hand


def run_everything() -> None:
    """From here on, in this process and in those that it starts."""
    os.environ[_VARIABLE] = "1"


def everything() -> bool:
    return bool(os.environ.get(_VARIABLE))


def some(usual: Sequence[T], *others: T) -> list[T]:
    """Choose parameters of a test: the usual ones, and the others if everything is to run."""
    return [*usual, *(others if everything() else ())]


def count(usual: int, of_all: int) -> int:
    """Of random cases: the first ones are the same in both."""
    return of_all if everything() else usual
