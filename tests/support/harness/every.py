"""A loop over many small cases in a single test: it goes on after a failure, and lists them all.

A test id of its own costs each process of a run more than a case that takes microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def check_every(
    cases: Iterable[Case], check: Callable[[Case], object], title: Callable[[Case], str] = str
) -> None:
    """Run a check for each case; fail with the title and the error of each case that fails."""
    cases = list(cases)
    assert cases, "nothing to check"
    failures = []
    for case in cases:
        try:
            check(case)
        except (Exception, pytest.fail.Exception) as error:
            failures.append(f"{title(case)}: {type(error).__name__}: {error}")
    if failures:
        pytest.fail("\n".join([f"{len(failures)} of {len(cases)} failed:", *failures]))
