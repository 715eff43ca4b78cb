"""Linear layers with packed weights, and quantization parameters, on WebGPU."""

from __future__ import annotations

import pytest

from support.choose_qparams_cases import CHOOSE_CASES, affine, per_token
from support.linear_q4_cases import LINEAR_Q4_CASES, backward, dq8ca, int8, q4gsw, qcs4w, requant
from support.products_page import differences
from support.row_cases import normal
from webpte.ops.products import TILINGS
from webpte_host.browser import Harness


def test_kernels(harness: Harness) -> None:
    assert differences(harness, LINEAR_Q4_CASES) == []


def test_quantization_parameters(harness: Harness) -> None:
    assert differences(harness, CHOOSE_CASES) == []


TILED = [
    q4gsw((131, 64), 133, 32, bias=True),
    q4gsw((35, 36), 70, 12),
    qcs4w((70, 10), 37, width=5),
    int8((37, 36), 131),
    dq8ca((68, 64), 35, 32, bias=True),
    backward((68,), 37, 72, 24, 37),
]


@pytest.mark.parametrize("tiling", range(len(TILINGS)))
@pytest.mark.parametrize("k_parts", [1, 3])
def test_tilings(harness: Harness, tiling: int, k_parts: int) -> None:
    assert differences(harness, TILED, tiling=tiling, k_parts=k_parts) == []


def test_folded_grids(harness: Harness) -> None:
    cases = [
        q4gsw((1, 64), 401, 32),
        q4gsw((40, 64), 401, 32),
        requant(70, 90, 9, 70),
        affine(normal((70, 12)), [1, 12]),
        affine(normal((2, 40000)), [1, 40000]),
        per_token(normal((70, 65))),
    ]
    assert differences(harness, cases, max_workgroups=9) == []
