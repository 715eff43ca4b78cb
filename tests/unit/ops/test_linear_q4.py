from __future__ import annotations

import pytest

from support.graphs import wait
from support.linear_q4_cases import LINEAR_Q4_CASES
from support.row_cases import RowCase


@pytest.mark.parametrize("case", LINEAR_Q4_CASES, ids=str)
def test_reference(case: RowCase) -> None:
    wait(case.run_reference())
