"""Top logprobs: the reference against an oracle in float64, the dispatches, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webpte
from support.cases.live_cases import LiveCase, lowered
from support.cases.sampling.sample_cases import logits_of
from support.cases.sampling.top_logprobs_cases import (
    TOP_LOGPROBS,
    TOP_LOGPROBS_CASES,
    expected,
    top_logprobs,
)
from support.graphs.graphs import wait
from webpte.engine.ops.sampling.top_logprobs import TopLogprobs
from webpte.errors import GraphError


async def told_by(case: LiveCase) -> list[TopLogprobs]:
    async with await webpte.load(case.program(), device="numpy") as program:
        steps = range(len(case.steps))
        return [TopLogprobs.of((await program.forward(*case.inputs(i)))[0]) for i in steps]


@pytest.mark.parametrize("case", TOP_LOGPROBS_CASES, ids=str)
def test_reference(case: LiveCase) -> None:
    for told, (logprob, tokens, logprobs) in zip(wait(told_by(case)), expected(case), strict=True):
        assert list(told.tokens) == tokens
        # A token that is 2^-32 as probable as the likeliest counts as nothing in the sum.
        np.testing.assert_allclose(told.logprob, logprob, rtol=1e-6, atol=5e-6)
        np.testing.assert_allclose(told.logprobs, logprobs, rtol=1e-6, atol=5e-6)


def test_probabilities_of_few_tokens_are_one_in_sum() -> None:
    (told,) = wait(told_by(top_logprobs(logits_of(13), (4,), 20)))
    assert sorted(told.tokens) == list(range(13))
    assert np.exp(told.logprobs).sum() == pytest.approx(1, abs=1e-6)
    assert told.logprob == told.logprobs[told.tokens.index(4)]


def test_what_is_dispatched() -> None:
    steps = lowered(top_logprobs(logits_of(5003), (1,), 20))[0].dispatches()
    assert [step.kernel for step in steps] == [
        "top_logprobs",
        "top_logprobs_merge",
        "top_logprobs_sum",
    ]
    assert [step.grid[0] for step in steps] == [5, 1, 5]


@pytest.mark.parametrize(
    ("logits", "token", "count", "message"),
    [
        (logits_of(6).reshape(2, 3), np.zeros(1, np.int32), 3, r"logits \[2, 3\]"),
        (logits_of(6), np.zeros(1, np.int32), 21, "21 top logprobs; there can be 1 to 20"),
        (logits_of(6), np.zeros(1, np.int32), 0, "0 top logprobs"),
        (logits_of(6), np.zeros(1, np.float32), 3, "the token must be int32, not float32"),
        (np.zeros((1, 6), np.int32), np.zeros(1, np.int32), 3, "defined for floats"),
    ],
)
def test_what_is_refused(logits: Any, token: Any, count: int, message: str) -> None:
    given = [(logits, token, count)]
    case = LiveCase(TOP_LOGPROBS, given, lambda *_: np.zeros((1, 9), np.int32), out="int32")
    with pytest.raises(GraphError, match=message):
        lowered(case)
