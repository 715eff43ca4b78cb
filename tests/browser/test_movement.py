"""The kernels that move, pick and make elements, on WebGPU, against the NumPy references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from support.cat_cases import CAT_CASES
from support.embedding_q4_cases import EMBEDDING_Q4_CASES
from support.fill_cases import FILL_CASES
from support.indexing_cases import INDEXING_CASES
from support.live_cases import LiveCase, random_bits
from support.pad_cases import PAD_CASES
from support.slicing_cases import SLICING_CASES
from support.strided_cases import STRIDED_CASES
from support.where_cases import WHERE_CASES
from webpte_host.browser import Harness

PREPARE = """
import base64
import numpy as np
import webpte

def unpack(dtype, shape, data):
    return np.frombuffer(base64.b64decode(data), dtype).reshape(shape)

async def outputs(case, device):
    # Strict: what no kernel takes would run on the host, and be compared with itself.
    pte = base64.b64decode(case["pte"])
    async with await webpte.load(pte, device=device, strict=True) as program:
        return [
            await program.forward(*(unpack(*item) for item in step)) for step in case["steps"]
        ]
"""

# Every output of every step, bit by bit where there is no tolerance.
COMPARE = f"""{PREPARE}
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

RUN = f"""{PREPARE}
return [(await outputs(case, "webgpu"))[0] for case in cases]
"""

FAMILIES = {
    "strided": STRIDED_CASES,
    "slicing": SLICING_CASES,
    "cat": CAT_CASES,
    "pad": PAD_CASES,
    "indexing": INDEXING_CASES,
    "embedding_q4": EMBEDDING_Q4_CASES,
    "where": WHERE_CASES,
    "fill": FILL_CASES,
}


def compare(harness: Harness, cases: Sequence[LiveCase]) -> None:
    packed = [case.as_json() for case in cases]
    compared, wrong = harness.python(COMPARE, cases=packed, timeout=600)
    assert wrong == []
    assert compared == sum(len(case.steps) * case.outputs for case in cases)


@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_agree_with_the_references(harness: Harness, family: str) -> None:
    compare(harness, FAMILIES[family])


def test_a_large_grid_folds(harness: Harness) -> None:
    """More than 65,535 workgroups of 64 words."""
    rows = random_bits((1, 67))
    case = LiveCase("aten.expand_copy.default", [(rows, [62700, 67])], np.broadcast_to)
    compare(harness, [case])


OUTSIDE = np.array([1, 5, -6, 2**31 - 1, -(2**31), -5], np.int32)
TABLE = np.arange(1, 16, dtype=np.float32).reshape(5, 3)
EXPECTED = [TABLE[1], *[np.zeros(3)] * 4, TABLE[0]]


@pytest.mark.parametrize(
    ("op", "args", "rows"),
    [
        ("aten.embedding.default", (TABLE, OUTSIDE), EXPECTED),
        ("aten.index.Tensor", (TABLE, [OUTSIDE]), EXPECTED),
        ("aten.index_select.default", (TABLE, 0, OUTSIDE), EXPECTED),
        ("aten.gather.default", (TABLE, 0, np.stack([OUTSIDE] * 3, axis=1)), EXPECTED),
        (
            "et_vk.embedding_q4gsw.default",
            (np.full((5, 2), 0x99, np.uint8), np.ones((5, 1), np.float32), 4, OUTSIDE, True),
            [[1] * 4, *[[0] * 4] * 4, [1] * 4],
        ),
    ],
)
def test_indices_out_of_range_give_zero(
    harness: Harness, op: str, args: tuple[Any, ...], rows: list[Any]
) -> None:
    wanted = np.array(rows)
    case = LiveCase(op, [args], lambda *_: wanted, out="float32", exact=False)
    ((result,),) = harness.python(RUN, cases=[case.as_json()])
    assert result == wanted.tolist()
