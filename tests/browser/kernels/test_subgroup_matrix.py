"""Products by subgroup matrices in a browser that has such, or that says that it has none."""

from __future__ import annotations

from typing import Any

import pytest

from support.cases.gemm import linear_q4_cases, matmul_cases
from support.cases.row_cases import as_json
from support.harness import limits
from webpte.ops.gemm.subgroup_matrix import MATRIX_TILE_CONFIGS
from webpte_host.harness.browser import Harness

CASES = [*linear_q4_cases.MATRIX_CASES, *matmul_cases.MATRIX_CASES]

VARIANT = """
from dataclasses import replace
from webpte import shared_device
from webpte_dev.variants import described_variants
from webpte.runtime.base.options import DeveloperOptions, applied_to

info = (await shared_device()).info
_, variant = await described_variants(["subgroup_matrices"], "webgpu")
asked = applied_to(DeveloperOptions(subgroup_matrices=True), replace(info, software=False))
found = [each.target.subgroup_matrices for each in (info, asked)]
return variant, info.has_subgroup_matrices, *found
"""

COMPARE = """
import base64, json
import webpte
import numpy as np
from webpte.ops.gemm import subgroup_matrix
from webpte.runtime.base.options import DeveloperOptions

def array(dtype, shape, text):
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape)

chosen, failures = subgroup_matrix.choose_matrix_tile_config, []
config = subgroup_matrix.MATRIX_TILE_CONFIGS[tiling], k_parts
subgroup_matrix.choose_matrix_tile_config = lambda *_: config
try:
    for case in json.loads(cases):
        data = base64.b64decode(case["program"])
        inputs = [array(*x) for x in case["steps"][0]]
        gpu = await webpte.load(data, options=DeveloperOptions(subgroup_matrices=True))
        cpu = await webpte.load(data, device="numpy")
        (result,), (wanted,) = await gpu.forward(*inputs), await cpu.forward(*inputs)
        off = float(np.abs(result - wanted).max() / np.abs(wanted).max())
        matrices = any(name.split()[0].endswith("_matrix") for name in gpu.kernels)
        gpu.close()
        if not matrices or not off < 2e-6:
            failures.append(f"{case['name']}: {matrices} {off}")
finally:
    subgroup_matrix.choose_matrix_tile_config = chosen
return failures
"""


def test_there_or_said_to_be_missing(harness: Harness) -> None:
    variant, there, taken, taken_if_asked = harness.python(VARIANT)
    assert variant["label"] == f"{'without' if there else 'with'} subgroup matrices"
    assert there == (variant["missing"] == "")
    assert taken == taken_if_asked == there


def test_every_tiling(harness: Harness) -> None:
    there: Any = harness.python(
        "import webpte\nreturn (await webpte.shared_device()).info.has_subgroup_matrices"
    )
    if not there:
        pytest.skip("no subgroup matrices, which the test above has seen to be said")
    for tiling in range(len(MATRIX_TILE_CONFIGS)):
        for k_parts in (1, 3):
            given: dict[str, Any] = {
                "cases": as_json(CASES),
                "tiling": tiling,
                "k_parts": k_parts,
            }
            assert harness.python(COMPARE, **given, timeout=limits.CALL_SECONDS) == []
