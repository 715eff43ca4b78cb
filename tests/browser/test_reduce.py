"""Reductions, softmax, normalizations and training ops on WebGPU against their references."""

from __future__ import annotations

import base64

import pytest

from support.norm_cases import NORM_CASES
from support.reduce_cases import REDUCE_CASES, SPECIAL
from support.row_cases import COMPARE, RowCase, as_json
from support.softmax_cases import SOFTMAX_CASES
from support.training_cases import TRAINING_CASES, Classifier
from webpte_host.browser import Harness

TABLES = {
    "reduce": REDUCE_CASES,
    "softmax": SOFTMAX_CASES,
    "norm": NORM_CASES,
    "training": TRAINING_CASES,
}


@pytest.mark.parametrize("table", TABLES)
def test_kernels(harness: Harness, table: str) -> None:
    cases = as_json(TABLES[table])
    assert harness.python(COMPARE, cases=cases, timeout=600) == []


def many_workgroups(case: RowCase) -> bool:
    (x, *_), (shape, *_) = case.steps[0], [a.shape for a in case.steps[0]]
    return 400 < x.size < 3000 and len(shape) > 1 and x is not SPECIAL


# A limit of a few workgroups folds grids that are small enough to test.
FOLDED = """
import webpte.ops.records
limit, webpte.ops.records.MAX_WORKGROUPS = webpte.ops.records.MAX_WORKGROUPS, 9
try:
    return await compare(cases)
finally:
    webpte.ops.records.MAX_WORKGROUPS = limit
"""


def test_folded_grids(harness: Harness) -> None:
    folded = [case for table in TABLES.values() for case in table if many_workgroups(case)]
    assert len(folded) > 40
    define = "async def compare(cases):\n" + "\n".join(f"    {x}" for x in COMPARE.splitlines())
    assert harness.python(f"{define}\n{FOLDED}", cases=as_json(folded), timeout=600) == []


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


def test_a_classifier_learns(harness: Harness) -> None:
    model, steps = Classifier(), 40
    data = base64.b64encode(model.program()).decode()
    losses = harness.python(
        TRAIN, data=data, x=model.x.tolist(), labels=model.labels.tolist(), steps=steps
    )
    assert losses == pytest.approx(model.expected(steps), rel=2e-3, abs=1e-5)
    assert losses[-1] < losses[0] / 5
