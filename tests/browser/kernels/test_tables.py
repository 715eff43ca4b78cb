"""The operators' tables on WebGPU: rows of every fifth family, with `--all` of each family.

All rows run natively, see tests/native/test_tables.py; `for_browser` says which ones run here, too.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from support.cases.conv.conv_cases import conv
from support.cases.gpu_kernels import both_kernels, cases_for, for_browser
from support.cases.int8 import q8ta_conv_cases, q8ta_linear_cases
from support.cases.move.view_cases import VIEW_CASES
from support.cases.sampling.guess_tokens_cases import guesses
from support.cases.sampling.next_round_cases import next_round
from support.cases.sampling.sample_cases import logits_of, sample
from support.cases.sampling.top_logprobs_cases import top_logprobs
from support.cases.tables import every_row, families
from support.harness import extent
from support.page.page import Run, run_all
from support.page.table_page import check_rows
from webpte_host.harness.browser import Harness

# Rows with a GPU's kernels that have no barriers: a CPU adapter compiles them quickly.
DIRECT: dict[str, list[Any]] = {
    "conv": [conv((2, 6, 9, 11), (6, 1, 3, 3), groups=6)],
    "q8ta_conv": [
        q8ta_conv_cases.conv(q8ta_conv_cases.DEPTHWISE, (1, 5, 7, 8), 5, groups=5, padding=(1, 1))
    ],
}

# Rows that have all steps of a GPU's kernels, where each row of the table has only some.
SOME = range(0, 5003, 3)
WHOLE: dict[str, list[Any]] = {
    "sample": [
        sample(
            *(logits_of(5003), (3, 5), [1, 2, 3] * 9),
            penalty=1.3,
            top_k=40,
            top_p=0.9,
            allowed=SOME,
        )
    ],
    "top_logprobs": [top_logprobs(logits_of(5003), (3, 5), 20)],
    "next_round": [next_round(8, 64, 131)],
    "guess_tokens": [guesses(8, [40, 4990, 257], 5003, 40)],
}


ON_THE_HOST = {"median"}  # of these families some rows have no kernel


@cache
def tables() -> dict[str, list[Any]]:
    """Return the rows of each family that run in a browser."""
    found: dict[str, list[Any]] = {}
    for row in every_row():
        found.setdefault(row.family, []).append(row.case)
    return for_browser(found)


@both_kernels
@pytest.mark.parametrize("family", extent.share(families(), 5))
def test_rows(harness: Harness, family: str, kernels: str) -> None:
    every = tables()[family]
    if kernels == "gpu":
        every = WHOLE.get(family, every)
    with cases_for(kernels, harness, every, DIRECT.get(family, [])) as cases:
        check_rows(harness, cases, strict=family not in ON_THE_HOST)


def test_a_copied_view_keeps_every_bit(harness: Harness) -> None:
    """NaN payloads, -0.0 and subnormals, which comparing numbers does not see."""
    cases = [case for case in VIEW_CASES if case.copied and case.inputs[0].size]
    assert len(cases) > 20
    outcomes = run_all(harness, [Run(case.program(), [case.inputs]) for case in cases])
    for case, outcome in zip(cases, outcomes, strict=True):
        ((result,),) = outcome.outputs
        assert result.tobytes() == case.inputs[0].tobytes(), str(case)


@pytest.mark.thorough
def test_browsers_without_a_dot_product_of_bytes(fresh_harness: Harness) -> None:
    features_left = fresh_harness.python("""
    from pyodide.code import run_js
    run_js("Object.defineProperty(GPU.prototype, 'wgslLanguageFeatures', { get: () => new Set() })")
    return run_js("navigator.gpu.wgslLanguageFeatures.size")
    """)
    assert features_left == 0
    linear = q8ta_linear_cases.linear(q8ta_linear_cases.LINEAR, (5, 13), 7)
    check_rows(fresh_harness, [linear, q8ta_conv_cases.conv(q8ta_conv_cases.CONV, (1, 3, 5, 5), 4)])
