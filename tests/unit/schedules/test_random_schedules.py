"""Random schedules. Each test may run in another process: support/harness/distribute.py."""

from __future__ import annotations

import pytest

from support.schedules.quick import CHUNKS, first_failure_of, schedule_count


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_schedules(chunk: int, pytestconfig: pytest.Config) -> None:
    failure = first_failure_of(
        chunk,
        schedule_count(pytestconfig.getoption("schedules")),
        pytestconfig.getoption("seed"),
    )
    assert failure is None, failure
