"""Choosing a token on WebGPU, and candidates: as the reference, with either set of kernels."""

from __future__ import annotations

from collections.abc import Sequence

import webpte
from support.cases.gpu_kernels import GPU, cases_for, for_browser
from support.cases.live_cases import LiveCase
from support.cases.sampling.next_round_cases import NEXT_ROUND_CASES, next_round
from support.cases.sampling.sample_cases import SAMPLE_CASES, logits_of, sample
from support.cases.sampling.top_logprobs_cases import TOP_LOGPROBS_CASES, top_logprobs
from support.harness.reading import run_apart as finish
from support.page.page import HarnessSource, Run, run_all

CASES = [
    *for_browser(SAMPLE_CASES),
    *for_browser(TOP_LOGPROBS_CASES),
    *for_browser(NEXT_ROUND_CASES),
]

# For a GPU's kernels: every kernel, each with all of its steps.
SOME = range(0, 5003, 3)
WHOLE = [
    sample(logits_of(5003), (3, 5), [1, 2, 3] * 9, penalty=1.3, top_k=40, top_p=0.9, allowed=SOME),
    top_logprobs(logits_of(5003), (3, 5), 20),
    next_round(8, 64, 131),
]


def references(case: LiveCase) -> list[list[int]]:
    async def compute() -> list[list[int]]:
        async with await webpte.load(case.program(), device="numpy") as program:
            steps = range(len(case.steps))
            return [(await program.forward(*case.inputs(i)))[0].ravel().tolist() for i in steps]

    return finish(compute())


def compare(harness: HarnessSource, cases: Sequence[LiveCase]) -> None:
    runs = [Run(c.program(), [c.inputs(i) for i in range(len(c.steps))]) for c in cases]
    for case, outcome in zip(cases, run_all(harness.get(), runs), strict=True):
        assert outcome.error is None, str(case)
        assert [token.ravel().tolist() for (token,) in outcome.outputs] == references(case)


def test_tokens_are_those_of_the_reference(shared_harness: HarnessSource) -> None:
    assert len(CASES) > 5
    compare(shared_harness, CASES)


def test_kernels_of_a_gpu(shared_harness: HarnessSource) -> None:
    with cases_for(GPU, shared_harness.get(), WHOLE) as cases:
        compare(shared_harness, cases)
