"""Reductions, softmax, normalizations and training ops on WebGPU against their references."""

from __future__ import annotations

import base64
from textwrap import indent

import pytest

from support.cases.gpu_kernels import both_kernels, cases_for, for_browser
from support.cases.norm.norm_cases import NORM_CASES, batch_norm, group_norm, layer_norm, rms_norm
from support.cases.pool.adaptive_pool_cases import ADAPTIVE_CASES
from support.cases.pool.pool3d_cases import VOLUMES_CASES
from support.cases.reduce.median_cases import MEDIAN_CASES
from support.cases.reduce.reduce_cases import (
    AMIN,
    ARGMAX,
    MEAN,
    REDUCE_CASES,
    SUM,
    arg_reduction,
    reduction,
)
from support.cases.reduce.softmax_cases import SOFTMAX, SOFTMAX_CASES, softmax
from support.cases.reduce.variance_cases import CUMULATIVE_CASES, EXTREME_CASES, VARIANCE_CASES
from support.cases.row_cases import COMPARE, as_json, normal
from support.cases.training.training_cases import (
    ADAMW_DEFAULTS,
    TRAINING_CASES,
    Classifier,
    adamw,
    cross_entropy,
    labels_for,
)
from support.graphs.fine_tuning import PYTORCH_LOSSES, FineTuning
from support.harness import limits
from webpte_host.harness.browser import Harness

# Compiling takes the time here, and these two differ in one formula from sum and amax.
REDUCE = [
    case
    for i, case in enumerate(REDUCE_CASES)
    if case.op not in (AMIN, MEAN) or case.label or i % 3 == 0
]

TABLES = {
    "adaptive": for_browser(ADAPTIVE_CASES),
    "median": for_browser(MEDIAN_CASES),
    "reduce": for_browser(REDUCE),
    "softmax": for_browser(SOFTMAX_CASES),
    "norm": for_browser(NORM_CASES),
    "training": for_browser(TRAINING_CASES),
    "volumes": for_browser(VOLUMES_CASES),
    "variance": for_browser([*VARIANCE_CASES, *EXTREME_CASES, *CUMULATIVE_CASES]),
}


@both_kernels
@pytest.mark.parametrize("table", TABLES)
def test_kernels(harness: Harness, table: str, kernels: str) -> None:
    with cases_for(kernels, harness, TABLES[table]) as cases:
        assert harness.python(COMPARE, cases=as_json(cases), timeout=limits.CALL_SECONDS) == []


# 10 to 60 workgroups each, for a limit of 9.
FOLDED = [
    reduction(SUM, normal((40, 300)), [-1]),
    reduction(SUM, normal((2, 40, 300)), [1]),
    reduction(SUM, normal((1, 60000)), [-1]),
    arg_reduction(ARGMAX, normal((40, 300)), -1),
    arg_reduction(ARGMAX, normal((1, 20000)), -1),
    softmax(SOFTMAX, normal((40, 300)), -1),
    softmax(SOFTMAX, normal((2, 40, 300)), 1),
    layer_norm(normal((40, 300)), 1),
    rms_norm(normal((40, 300))),
    group_norm(normal((10, 4, 25, 25)), 4),
    batch_norm(normal((2, 6, 30, 30))),
    cross_entropy(normal((40, 300)), labels_for(40, 300), 40),
    adamw((3000,), *ADAMW_DEFAULTS, 1, 1),
]

LIMITED = """
import webpte.ops.core.records
limit, webpte.ops.core.records.MAX_WORKGROUPS = webpte.ops.core.records.MAX_WORKGROUPS, 9
try:
    return await compare(cases)
finally:
    webpte.ops.core.records.MAX_WORKGROUPS = limit
"""


@both_kernels
def test_folded_grids(harness: Harness, kernels: str) -> None:
    compare = f"async def compare(cases):\n{indent(COMPARE, '    ')}"
    with cases_for(kernels, harness, FOLDED) as cases:
        assert (
            harness.python(compare + LIMITED, cases=as_json(cases), timeout=limits.CALL_SECONDS)
            == []
        )


TRAIN = """
import base64
import numpy as np
import webpte

program = await webpte.load(base64.b64decode(data), device="webgpu")
x, labels = np.array(x, np.float32), np.array(labels, np.int32)
losses = [float((await program.forward(x, labels))[0]) for _ in range(steps)]
program.close()
return losses
"""


def train(harness: Harness, model: Classifier | FineTuning, steps: int) -> list[float]:
    data = base64.b64encode(model.program()).decode()
    losses: list[float] = harness.python(
        TRAIN, data=data, x=model.x.tolist(), labels=model.labels.tolist(), steps=steps
    )
    return losses


def test_fine_tuning_follows_pytorch(harness: Harness) -> None:
    losses = train(harness, FineTuning(), len(PYTORCH_LOSSES))
    assert losses == pytest.approx(PYTORCH_LOSSES, rel=2e-3, abs=2e-5)


def test_a_classifier_learns(harness: Harness) -> None:
    model, steps = Classifier(), 40
    losses = train(harness, model, steps)
    assert losses == pytest.approx(model.expected(steps), rel=2e-3, abs=1e-5)
    assert losses[-1] < losses[0] / 5
