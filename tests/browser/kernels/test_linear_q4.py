"""Linear layers with packed weights, and quantization parameters, on WebGPU."""

from __future__ import annotations

import pytest

from support.cases.gemm.linear_q4_cases import (
    LINEAR_Q4_CASES,
    backward,
    dq8ca,
    int8,
    q4gsw,
    qcs4w,
    requant,
)
from support.cases.gpu_kernels import GPU, both_kernels, cases_for, for_browser
from support.cases.quant.choose_qparams_cases import CHOOSE_CASES, affine, per_token
from support.cases.row_cases import normal
from support.page.gemm_page import differences
from webpte.ops.gemm.gemm import TILE_CONFIGS
from webpte_host.harness.browser import Harness

TABLES = {"linear_q4": for_browser(LINEAR_Q4_CASES), "choose_qparams": for_browser(CHOOSE_CASES)}


@both_kernels
@pytest.mark.parametrize("table", TABLES)
def test_kernels(harness: Harness, table: str, kernels: str) -> None:
    with cases_for(kernels, harness, TABLES[table]) as cases:
        assert differences(harness, cases) == []


TILED = [
    q4gsw((131, 64), 133, 32, bias=True),
    q4gsw((35, 36), 70, 12),
    qcs4w((70, 10), 37, width=5),
    int8((37, 36), 131),
    dq8ca((68, 64), 35, 32, bias=True),
    backward((68,), 37, 72, 24, 37),
]


@pytest.mark.parametrize("tiling", range(len(TILE_CONFIGS)))
@pytest.mark.parametrize("k_parts", [1, 3])
def test_tilings(harness: Harness, tiling: int, k_parts: int) -> None:
    with cases_for(GPU, harness, TILED) as cases:
        assert differences(harness, cases, tiling=tiling, k_parts=k_parts) == []


@both_kernels
def test_folded_grids(harness: Harness, kernels: str) -> None:
    every = [
        q4gsw((1, 64), 401, 32),
        q4gsw((40, 64), 401, 32),
        requant(70, 90, 9, 70),
        affine(normal((70, 12)), [1, 12]),
        affine(normal((2, 40000)), [1, 40000]),
        per_token(normal((70, 65))),
    ]
    with cases_for(kernels, harness, every) as cases:
        assert differences(harness, cases, max_workgroups=9) == []
