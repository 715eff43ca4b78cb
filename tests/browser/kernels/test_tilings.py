"""GEMM and int8 kernels on WebGPU with every size of tile, and with sums in several parts."""

from __future__ import annotations

import pytest

from support.cases.gemm import linear_q4_cases
from support.cases.gemm.matmul_cases import addmm, bmm, gradient, linear, mm
from support.cases.gpu_kernels import GPU, cases_for
from support.cases.int8 import q8ta_conv_cases, q8ta_linear_cases
from support.harness import extent
from support.page.table_page import check_rows, forced
from webpte.engine.ops.gemm.lib.gemm import TILE_CONFIGS
from webpte_host.harness.browser import Harness

# A tile and a bit of it, along each side; sums of several steps, the last one a partial one.
TILED = {
    "floats": [
        mm(133, 131, 37),
        mm(37, 140, 36),
        bmm(2, 68, 36, 20),
        addmm((131,), 35, 131, 17, 2, 3),
        linear((3, 45, 36), 70, 70),
        gradient((40,), 70, 34),
    ],
    "quantized": [
        linear_q4_cases.q4gsw((131, 64), 133, 32, bias=True),
        linear_q4_cases.q4gsw((35, 36), 70, 12),
        linear_q4_cases.qcs4w((70, 10), 37, width=5),
        linear_q4_cases.int8((37, 36), 131),
        linear_q4_cases.dq8ca((68, 64), 35, 32, bias=True),
        linear_q4_cases.backward((68,), 37, 72, 24, 37),
    ],
}


# A usual run has each tile size once, in turns with both kinds of weights and both sums.
FORCED = [(w, t, k) for t in range(len(TILE_CONFIGS)) for w in TILED for k in (1, 3)]


@pytest.mark.parametrize(("weights", "tiling", "k_parts"), extent.share(FORCED, 5))
def test_tilings(harness: Harness, weights: str, tiling: int, k_parts: int) -> None:
    with (
        cases_for(GPU, harness, TILED[weights]) as cases,
        forced(harness, tiling=tiling, k_parts=k_parts),
    ):
        check_rows(harness, cases)


LARGE = [
    q8ta_linear_cases.linear(q8ta_linear_cases.FLOAT, (70, 133), 67),
    q8ta_linear_cases.linear(q8ta_linear_cases.LINEAR, (130, 20), 68, activation="relu"),
    q8ta_conv_cases.conv(q8ta_conv_cases.CONV, (2, 5, 9, 8), 67, padding=(1, 1)),
    q8ta_conv_cases.conv(q8ta_conv_cases.POINTWISE, (1, 70, 9, 8), 66, (1, 1)),
    q8ta_conv_cases.conv(q8ta_conv_cases.TRANSPOSED, (1, 6, 9, 9), 65, (3, 3), stride=(2, 2)),
]


@pytest.mark.thorough
def test_large_tiles_of_int8(harness: Harness) -> None:
    with cases_for(GPU, harness, LARGE) as cases, forced(harness, full=1):
        check_rows(harness, cases)
