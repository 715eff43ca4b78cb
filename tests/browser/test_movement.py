"""The kernels that move, pick and make elements, on WebGPU, against the NumPy references."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from support.indexing_cases import (
    EMBEDDING_Q4_CASES,
    FILL_CASES,
    INDEXING_CASES,
    WHERE_CASES,
)
from support.live_cases import LiveCase
from support.movement_cases import (
    CAST_CASES,
    CAT_CASES,
    PAD_CASES,
    SLICING_CASES,
    STRIDED_CASES,
    expanded,
    random_bits,
)
from webpte_host.browser import Harness

# Loads each program twice and compares every output of every step, bit by bit without a tolerance.
COMPARE = """
import base64
import numpy as np
import webpte

def unpack(dtype, shape, data):
    return np.frombuffer(base64.b64decode(data), dtype).reshape(shape)

async def outputs(case, device):
    async with await webpte.load(base64.b64decode(case["pte"]), device=device) as program:
        return [
            await program.forward(*(unpack(*item) for item in step)) for step in case["steps"]
        ]

def same(a, b, rtol):
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if rtol == 0 or a.dtype.kind != "f":
        return a.tobytes() == b.tobytes()
    return bool(np.allclose(a, b, rtol=rtol, atol=rtol))

wrong, compared = [], 0
for case in cases:
    try:
        pairs = zip(await outputs(case, "webgpu"), await outputs(case, "numpy"), strict=True)
        for step, (gpu, reference) in enumerate(pairs):
            for a, b in zip(gpu, reference, strict=True):
                compared += 1
                if not same(a, b, case["rtol"]):
                    wrong.append([case["name"], step, a.tolist()[:9], b.tolist()[:9]])
    except Exception as error:
        wrong.append([case["name"], repr(error)])
return [compared, wrong]
"""

FAMILIES = {
    "strided": STRIDED_CASES,
    "slicing": SLICING_CASES,
    "cat": [*CAT_CASES, *CAST_CASES],
    "pad": PAD_CASES,
    "indexing": INDEXING_CASES,
    "embedding_q4": EMBEDDING_Q4_CASES,
    "where": WHERE_CASES,
    "fill": FILL_CASES,
}
# More than 65,535 workgroups of 64 words: the grid folds.
FOLDED = LiveCase("aten.expand_copy.default", [(random_bits((1, 67)), [62700, 67])], expanded)


def compare(harness: Harness, cases: Sequence[LiveCase]) -> None:
    packed = [case.as_json() for case in cases]
    compared, wrong = harness.python(COMPARE, cases=packed, timeout=600)
    assert wrong == []
    assert compared == sum(len(case.steps) * case.outputs for case in cases)


@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_agree_with_the_references(harness: Harness, family: str) -> None:
    compare(harness, FAMILIES[family])
