"""A quarter of the schedules of support/schedules.py: tests are shared out by file."""

from __future__ import annotations

import pytest

from support.schedules_quick import CHUNKS, first_failure_of

QUARTER = 2


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_schedules(chunk: int, pytestconfig: pytest.Config) -> None:
    failure = first_failure_of(
        QUARTER * CHUNKS + chunk,
        pytestconfig.getoption("schedules"),
        pytestconfig.getoption("seed"),
    )
    assert failure is None, failure
