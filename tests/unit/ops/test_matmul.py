from __future__ import annotations

import pytest

from support.graphs import wait
from support.matmul_cases import MATMUL_CASES
from support.row_cases import RowCase


@pytest.mark.parametrize("case", MATMUL_CASES, ids=str)
def test_reference(case: RowCase) -> None:
    wait(case.run_reference())
