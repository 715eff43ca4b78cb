"""Products by subgroup matrices in a browser with this feature, or its message without it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.cases.attention import attention_cases
from support.cases.gemm import linear_q4_cases, matmul_cases
from support.cases.row_cases import as_json, program_json
from support.decoders.head_graphs import ChangedHeads, changed_attention, changed_steps
from support.graphs.fusion_graphs import Heads, Sizes, gated
from support.harness import limits
from support.write.pte_writer import write_pte
from webpte.engine.ops.gemm.subgroup_matrix.tiles import MATRIX_TILE_CONFIGS
from webpte_host.harness.browser import Harness

LARGE = Sizes(300, 512, 1000)
_MANY = Heads(40, 4, 2, 8, half=True, turned=8)
HEADS = [
    ChangedHeads(_MANY, "", norm=""),
    ChangedHeads(_MANY, "bias"),
    ChangedHeads(_MANY, "added bias", "int8"),
]
CASES = [
    *linear_q4_cases.MATRIX_CASES,
    linear_q4_cases.INVERTED_MATRIX_CASE,
    *matmul_cases.MATRIX_CASES,
]

VARIANT = """
from dataclasses import replace
from webpte import shared_device
from webpte_export.suites.variants import described_variants
from webpte.engine.call.options import DeveloperOptions, applied_to

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
from webpte.engine.ops.gemm.subgroup_matrix import tiles
from webpte.engine.call.options import DeveloperOptions

def array(dtype, shape, text):
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape)

chosen, failures = tiles.choose_matrix_tile_config, []
config = tiles.MATRIX_TILE_CONFIGS[tiling], k_parts
tiles.choose_matrix_tile_config = lambda *_: config
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
    tiles.choose_matrix_tile_config = chosen
return failures
"""

# All steps of programs, with the tiles that the device chooses.
COMPARE_STEPS = """
import base64, json
import webpte
import numpy as np
from webpte.engine.call.options import DeveloperOptions

def array(dtype, shape, text):
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape)

failures = []
for case in json.loads(cases):
    data = base64.b64decode(case["program"])
    gpu = await webpte.load(data, options=DeveloperOptions(subgroup_matrices=True))
    cpu = await webpte.load(data, device="numpy")
    for step in case["steps"]:
        inputs = [array(*x) for x in step]
        (result, *_), (wanted, *_) = await gpu.forward(*inputs), await cpu.forward(*inputs)
        off = float(np.abs(result - wanted).max() / np.abs(wanted).max())
        if not off < case["bound"]:
            failures.append(f"{case['name']}: {off}")
    if not {name.split()[0] for name in gpu.kernels} & set(case["kernels"]):
        failures.append(f"{case['name']}: other kernels")
    gpu.close()
return failures
"""


def test_there_or_said_to_be_missing(harness: Harness) -> None:
    variant, there, taken, taken_if_asked = harness.python(VARIANT)
    assert variant["label"] == f"{'without' if there else 'with'} subgroup matrices"
    assert there == (variant["missing"] == "")
    assert taken == taken_if_asked == there


def need_matrices(harness: Harness) -> None:
    there: Any = harness.python(
        "import webpte\nreturn (await webpte.shared_device()).info.has_subgroup_matrices"
    )
    if not there:
        pytest.skip("no subgroup matrices, which the test above has seen to be said")


@pytest.mark.thorough
def test_layers_of_one_x_and_attention(harness: Harness) -> None:
    need_matrices(harness)
    found = list[dict[str, Any]]()
    for sizes, kind in ((Sizes(131, 64, 200), "q4"), (Sizes(17, 40, 7), "q4"), (LARGE, "int8")):
        graph, inputs = gated(sizes, kind)
        program = program_json(f"gated {sizes} {kind}", write_pte(graph), [inputs])
        found.append(program | {"bound": 5e-6, "kernels": ["linear_q4_multi_matrix"]})
    for changed in HEADS:
        net = changed_attention(changed)
        program = program_json(str(changed), write_pte(net.g), changed_steps(net, changed))
        found.append(program | {"bound": 1e-5, "kernels": ["linear_q4_multi_matrix"]})
    for case in attention_cases.MATRIX_CASES:
        steps = [case.inputs(i) for i in range(len(case.steps))]
        program = program_json(str(case), case.program(), steps)
        found.append(program | {"bound": 5e-6, "kernels": ["attention_matrix"]})
    cases = json.dumps(found)
    assert harness.python(COMPARE_STEPS, cases=cases, timeout=limits.CALL_SECONDS) == []


@pytest.mark.thorough
def test_every_tiling(harness: Harness) -> None:
    need_matrices(harness)
    for tiling in range(len(MATRIX_TILE_CONFIGS)):
        for k_parts in (1, 3):
            given: dict[str, Any] = {
                "cases": as_json(CASES),
                "tiling": tiling,
                "k_parts": k_parts,
            }
            assert harness.python(COMPARE, **given, timeout=limits.CALL_SECONDS) == []
