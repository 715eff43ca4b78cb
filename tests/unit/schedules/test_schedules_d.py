"""The last quarter of the schedules: tests are distributed to processes by file."""

from __future__ import annotations

import pytest

from support.schedules.quick import CHUNKS, first_failure_of, schedule_count

QUARTER = 3


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_schedules(chunk: int, pytestconfig: pytest.Config) -> None:
    failure = first_failure_of(
        QUARTER * CHUNKS + chunk,
        schedule_count(pytestconfig.getoption("schedules")),
        pytestconfig.getoption("seed"),
    )
    assert failure is None, failure
