"""The NumPy references of the unary family against float64 and `math`."""

from __future__ import annotations

import pytest

from support.cases.cases import Case, check_reference, ops_of_family
from support.cases.elementwise.function_cases import FUNCTION_CASES
from support.cases.elementwise.unary_cases import UNARY_CASES

CASES = [*UNARY_CASES, *FUNCTION_CASES]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reference(case: Case) -> None:
    check_reference(case)


def test_every_op_of_the_family_has_cases() -> None:
    assert len(ops_of_family("unary")) >= 50
    assert ops_of_family("unary") == {case.op for case in CASES}
