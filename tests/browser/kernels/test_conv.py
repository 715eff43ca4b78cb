"""Convolutions, pooling and resampling on WebGPU against their references."""

from __future__ import annotations

from textwrap import indent

import pytest

from support.cases.conv.conv_cases import CONV_CASES, conv
from support.cases.conv.resample_cases import RESAMPLE_CASES, linear, nearest, sampled
from support.cases.gpu_kernels import both_kernels, cases_for, for_browser
from support.cases.pool.pool_cases import POOL_CASES, average, digits, with_indices
from support.cases.row_cases import COMPARE, as_json, normal
from support.harness import limits
from webpte_host.harness.browser import Harness

TABLES = {
    "conv": for_browser(CONV_CASES),
    "pool": for_browser(POOL_CASES),
    "resample": for_browser(RESAMPLE_CASES),
}


# A GPU's kernels without barriers.
DIRECT = {"conv": [conv((2, 6, 9, 11), (6, 1, 3, 3), groups=6)]}


@both_kernels
@pytest.mark.parametrize("table", TABLES)
def test_kernels(harness: Harness, table: str, kernels: str) -> None:
    with cases_for(kernels, harness, TABLES[table], DIRECT.get(table, [])) as cases:
        assert harness.python(COMPARE, cases=as_json(cases), timeout=limits.CALL_SECONDS) == []


# 10 to 80 workgroups each, for a limit of 9.
FOLDED = [
    conv((2, 3, 20, 20), (40, 3, 3, 3)),
    conv((1, 8, 22, 24), (20, 8, 1, 1)),
    conv((1, 300, 6, 6), (70, 300, 3, 3)),
    conv((2, 20, 14, 14), (20, 1, 3, 3), groups=20),
    conv((1, 3, 12, 12), (3, 40, 2, 2), stride=[2], transposed=True),
    average(normal((4, 10, 16, 16)), [2, 2]),
    average(normal((1, 20, 20, 20)), [8, 8]),
    with_indices(digits((4, 10, 16, 16)), [3, 3], [1, 1]),
    nearest(normal((2, 3, 16, 16)), [24, 24], None),
    linear(normal((2, 3, 16, 16)), [30, 30], False, None),
    sampled(normal((2, 17, 8, 8)), normal((2, 20, 20, 2), 2), 0, 0, False),
]

LIMITED = """
import webpte.ops.core.records
limit, webpte.ops.core.records.MAX_WORKGROUPS = webpte.ops.core.records.MAX_WORKGROUPS, 9
try:
    return await compare(cases)
finally:
    webpte.ops.core.records.MAX_WORKGROUPS = limit
"""


@both_kernels
def test_folded_grids(harness: Harness, kernels: str) -> None:
    compare = f"async def compare(cases):\n{indent(COMPARE, '    ')}"
    with cases_for(kernels, harness, FOLDED) as cases:
        assert (
            harness.python(compare + LIMITED, cases=as_json(cases), timeout=limits.CALL_SECONDS)
            == []
        )
