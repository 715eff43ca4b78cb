"""A token from each row of the logits."""

from __future__ import annotations

import numpy as np
import pytest

from support.cases.live_cases import LiveCase, check_reference, lowered
from support.cases.sampling.sample_rows_cases import (
    MIXED,
    SAMPLE_ROWS,
    SAMPLE_ROWS_CASES,
    sample_rows,
)
from webpte.errors import GraphError


@pytest.mark.parametrize("case", SAMPLE_ROWS_CASES, ids=str)
def test_reference(case: LiveCase) -> None:
    check_reference(case)


def test_dispatches_do_not_depend_on_the_number_of_rows() -> None:
    few, many = (len(lowered(sample_rows([MIXED[4]] * n))) for n in (1, 6))
    assert few == many


def test_each_row_has_settings() -> None:
    step = sample_rows(MIXED[:3]).steps[0]
    wrong = (*step[:3], step[3][:2], *step[4:])
    out = np.zeros((3, 1), np.int32)
    with pytest.raises(GraphError, match=r"settings must be \[3, 8\], not \[2, 8\]"):
        lowered(LiveCase(SAMPLE_ROWS, [wrong], lambda *_: out, out="int32", exact=False))
