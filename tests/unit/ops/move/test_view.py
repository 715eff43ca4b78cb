"""The NumPy references of the view family against independent expectations."""

from __future__ import annotations

import pytest

from support.cases.cases import Case, check_reference, ops_of_family
from support.cases.move.view_cases import VIEW_CASES


@pytest.mark.parametrize("case", VIEW_CASES, ids=str)
def test_reference(case: Case) -> None:
    check_reference(case)


def test_every_op_of_the_family_has_cases() -> None:
    assert len(ops_of_family("view")) >= 5
    assert ops_of_family("view") == {case.op for case in VIEW_CASES}
