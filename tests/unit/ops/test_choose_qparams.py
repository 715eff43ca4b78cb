from __future__ import annotations

import pytest

from support.graphs import wait
from support.choose_qparams_cases import CHOOSE_CASES
from support.row_cases import RowCase


@pytest.mark.parametrize("case", CHOOSE_CASES, ids=str)
def test_reference(case: RowCase) -> None:
    wait(case.run_reference())
