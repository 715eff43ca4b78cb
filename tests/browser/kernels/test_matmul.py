"""Products of plain matrices on WebGPU against their references, with every kind of tile."""

from __future__ import annotations

import pytest

from support.cases.gemm.matmul_cases import MATMUL_CASES, addmm, bmm, gradient, linear, mm
from support.cases.gpu_kernels import GPU, both_kernels, cases_for, for_browser
from support.page.gemm_page import differences
from webpte.ops.gemm.gemm import TILE_CONFIGS
from webpte_host.harness.browser import Harness


@both_kernels
def test_kernels(harness: Harness, kernels: str) -> None:
    with cases_for(kernels, harness, for_browser(MATMUL_CASES)) as cases:
        assert differences(harness, cases) == []


# A tile and a bit of it, along each side; sums of several steps, the last one a partial one.
TILED = [
    mm(133, 131, 37),
    mm(37, 140, 36),
    bmm(2, 68, 36, 20),
    addmm((131,), 35, 131, 17, 2, 3),
    linear((3, 45, 36), 70, 70),
    gradient((40,), 70, 34),
]


@pytest.mark.parametrize("tiling", range(len(TILE_CONFIGS)))
@pytest.mark.parametrize("k_parts", [1, 3])
def test_tilings(harness: Harness, tiling: int, k_parts: int) -> None:
    """Each size of tile, with sums in one and in several parts."""
    with cases_for(GPU, harness, TILED) as cases:
        assert differences(harness, cases, tiling=tiling, k_parts=k_parts) == []


@both_kernels
def test_folded_grids(harness: Harness, kernels: str) -> None:
    """More workgroups than the limit, which is lowered for this: all along one dim, and folded."""
    every = [mm(1, 401, 9), mm(40, 401, 9), bmm(13, 2, 9, 5), bmm(13, 33, 34, 5), mm(20, 24, 2000)]
    with cases_for(kernels, harness, every) as cases:
        assert differences(harness, cases, max_workgroups=9) == []
