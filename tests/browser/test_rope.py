"""Rotary embeddings on WebGPU: against complex numbers in float64, and the references."""

from __future__ import annotations

import numpy as np
import pytest

import webpte
from support.page import Outcome, Run, run_all
from support.reading import run as finish
from support.rope_cases import HALVES, INTERLEAVED, PAIRS, ROPE, TOLERANCE, ComplexCase, RopeCase
from webpte_host.browser import Harness, SharedHarness

CASES: list[RopeCase | ComplexCase] = [*ROPE, *INTERLEAVED]


@pytest.fixture(scope="module")
def outcomes(shared_harness: SharedHarness) -> list[Outcome]:
    """All cases in one call; each is then a test of its own."""
    runs = [Run(c.program(), [c.inputs(i) for i in range(len(c.steps))]) for c in CASES]
    return run_all(shared_harness.get(), runs)


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_kernel(index: int, outcomes: list[Outcome]) -> None:
    case, outcome = CASES[index], outcomes[index]
    assert outcome.error is None

    async def references() -> list[tuple[np.ndarray, ...]]:
        program = await webpte.load(case.program(), device="numpy")
        return [await program.forward(*case.inputs(i)) for i in range(len(case.steps))]

    for step, reference in enumerate(finish(references())):
        results = outcome.outputs[step]
        case.check(step, results)
        for result, wanted in zip(results, reference, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=TOLERANCE, atol=TOLERANCE)


def test_more_workgroups_than_one_dimension_holds(harness: Harness) -> None:
    """65,536 workgroups of pairs and a few more, for queries and keys together."""
    tokens = 65_536 * 64 // (64 + 32) + 5
    cases = [
        RopeCase(op, [(tokens, 0)], heads=64, key_heads=32, size=2, positions=tokens)
        for op in (PAIRS, HALVES)
    ]
    done = run_all(harness, [Run(case.program(), [case.inputs(0)]) for case in cases])
    for case, outcome in zip(cases, done, strict=True):
        assert outcome.error is None
        case.check(0, outcome.outputs[0])
