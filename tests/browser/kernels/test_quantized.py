"""Quantization and int8 kernels on WebGPU against their references: every byte."""

from __future__ import annotations

import pytest

from support.cases.gpu_kernels import GPU, both_kernels, cases_for, for_browser
from support.cases.int8.q8ta_cases import EXACT, Q8TA_CASES, add
from support.cases.int8.q8ta_conv_cases import (
    CONV,
    DEPTHWISE,
    POINTWISE,
    Q8TA_CONV_CASES,
    TRANSPOSED,
    conv,
)
from support.cases.int8.q8ta_linear_cases import FLOAT, LINEAR, Q8TA_LINEAR_CASES, linear
from support.cases.quant.quantize_cases import (
    BY_NUMBERS,
    QUANTIZE_CASES,
    TOKEN,
    both,
    scales,
    zeros,
)
from support.page.live_page import check_kernels
from webpte_host.harness.browser import Harness

TABLES = {
    "quantize": for_browser(QUANTIZE_CASES),
    "q8ta": for_browser(Q8TA_CASES),
    "q8ta_linear": for_browser(Q8TA_LINEAR_CASES),
    "q8ta_conv": for_browser(Q8TA_CONV_CASES),
}


# A GPU's kernels without barriers.
DIRECT = {"q8ta_conv": [conv(DEPTHWISE, (1, 5, 7, 8), 5, groups=5, padding=(1, 1))]}


@pytest.mark.parametrize("table", TABLES)
def test_kernels(harness: Harness, table: str) -> None:
    check_kernels(harness, TABLES[table])


@pytest.mark.parametrize("table", ["q8ta_linear", "q8ta_conv"])
def test_kernels_of_a_gpu(harness: Harness, table: str) -> None:
    with cases_for(GPU, harness, TABLES[table], DIRECT.get(table, [])) as cases:
        check_kernels(harness, cases)


def test_large_tiles(harness: Harness) -> None:
    every = [
        linear(FLOAT, (70, 133), 67),
        linear(LINEAR, (130, 20), 68, activation="relu"),
        conv(CONV, (2, 5, 9, 8), 67, padding=(1, 1)),
        conv(POINTWISE, (1, 70, 9, 8), 66, (1, 1)),
        conv(TRANSPOSED, (1, 6, 9, 9), 65, (3, 3), stride=(2, 2)),
    ]
    with cases_for(GPU, harness, every) as cases:
        check_kernels(harness, cases, full=1)


@both_kernels
def test_folded_grids(harness: Harness, kernels: str) -> None:
    """10 to 40 workgroups each, for a limit of 9."""
    every = [
        *both(BY_NUMBERS, (3000,), 0.05, 3),
        *both(TOKEN, (300, 10), scales(300, 1), zeros(300, 1)),
        add((3000,), (3000,), *EXACT),
        linear(LINEAR, (1, 16), 43),
        linear(LINEAR, (130, 16), 131),
        conv(CONV, (2, 3, 20, 20), 20, padding=(1, 1)),
        conv(DEPTHWISE, (2, 10, 12, 12), 10, groups=10, padding=(1, 1)),
    ]
    with cases_for(kernels, harness, every) as cases:
        check_kernels(harness, cases, max_workgroups=9)


def test_browsers_without_a_dot_product_of_bytes(fresh_harness: Harness) -> None:
    features_left = fresh_harness.python("""
    from pyodide.code import run_js
    run_js("Object.defineProperty(GPU.prototype, 'wgslLanguageFeatures', { get: () => new Set() })")
    return run_js("navigator.gpu.wgslLanguageFeatures.size")
    """)
    assert features_left == 0
    check_kernels(fresh_harness, [linear(LINEAR, (5, 13), 7), conv(CONV, (1, 3, 5, 5), 4)])
