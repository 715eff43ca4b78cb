"""Choosing a token: the reference against an oracle in float64."""

from __future__ import annotations

import pytest

from support.live_cases import LiveCase, check_reference, family_ops
from support.sample_cases import SAMPLE, SAMPLE_CASES


@pytest.mark.parametrize("case", SAMPLE_CASES, ids=str)
def test_reference(case: LiveCase) -> None:
    check_reference(case)


def test_every_op_of_the_family_has_cases() -> None:
    assert family_ops("sample") == {SAMPLE} == {case.op for case in SAMPLE_CASES}
