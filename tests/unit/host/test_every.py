"""A loop over cases goes on after a failure, and has at least a case."""

from __future__ import annotations

import pytest

from support.harness.every import check_every


def test_all_failures_are_listed() -> None:
    seen = []

    def check(number: int) -> None:
        seen.append(number)
        assert number % 2, f"{number} is even"
        if number == 3:
            pytest.fail("three")

    with pytest.raises(pytest.fail.Exception) as caught:
        check_every(range(5), check, lambda number: f"case {number}")
    assert seen == [0, 1, 2, 3, 4]
    first, *lines = str(caught.value).splitlines()
    assert first == "4 of 5 failed:"
    assert [line.split(": ")[:2] for line in lines if line.startswith("case")] == [
        ["case 0", "AssertionError"],
        ["case 2", "AssertionError"],
        ["case 3", "Failed"],
        ["case 4", "AssertionError"],
    ]


def test_a_loop_without_failures_passes() -> None:
    check_every("ab", str.isalpha)


def test_a_loop_without_cases_fails() -> None:
    with pytest.raises(AssertionError, match="nothing to check"):
        check_every([], print)
