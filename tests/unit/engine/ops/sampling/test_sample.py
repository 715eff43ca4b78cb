"""The sampler: the reference against an oracle in float64, frequencies, lowering, errors."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from support.cases.cases import Array
from support.cases.live_cases import LiveCase, lowered
from support.cases.sampling.sample_cases import (
    SAMPLE,
    kept_tokens,
    logits_of,
    sample,
    seed_of,
    settings,
)
from support.graphs.graphs import make_delegate, read_graph, wait
from support.harness.every import check_every
from webpte.engine.ops.sampling import sample_numpy as op
from webpte.engine.ops.sampling.sample_numpy import Settings, choose_token, keys_of, numbers_of
from webpte.engine.run.request import RunRequest
from webpte.errors import GraphError, WebpteError


def test_keys_order_as_numbers_do() -> None:
    numbers = np.random.default_rng(0).normal(0, 1e3, 1000).astype(np.float32)
    numbers = np.concatenate([numbers, [0, -0.0, 1, np.nextafter(np.float32(1), 2, dtype="f4")]])
    numbers = numbers.astype(np.float32)
    keys = keys_of(numbers)
    assert np.array_equal(numbers_of(keys), numbers)
    order = np.argsort(keys, kind="stable")
    assert np.all(np.diff(numbers[order]) >= 0)
    assert keys_of(np.array([math.nan, -math.inf, -3e38], np.float32)).tolist()[:2] == [0, 1]


def test_what_is_kept() -> None:
    """All of it: a draw would show one token. Half of the logits are equal to another."""
    top_ks = [0, 1, 2, 17, 200, 499, 500]
    check_every(product(top_ks, [0.01, 0.2, 0.9, 0.9999, 1.0], [0.0, 0.001, 0.3]), check_kept)


def check_kept(asked_for: tuple[int, float, float]) -> None:
    top_k, top_p, min_p = asked_for
    for seed, temperature in enumerate((0.3, 1.0, 3.0)):
        row = logits_of(500, seed)[0]
        row = np.where(np.arange(500) % 2, np.round(row), row).astype(np.float32)
        asked = Settings.of(settings(temperature, top_k, top_p, min_p), True, True, False)
        tokens, _ = op.kept_tokens(keys_of(row), asked)
        given = [float(np.float32(value)) for value in (top_k, top_p, min_p, temperature)]
        wanted = kept_tokens(row, *given)
        near = (row.max() - row[wanted]) / temperature < 64 * math.log(2)  # others have no chance
        assert tokens.tolist() == wanted[near].tolist()


DRAWS = 300


@pytest.mark.parametrize(
    ("row", "asked", "kept"),
    [
        ([0, 1, 2, -1, 0.5], settings(), [0, 1, 2, 3, 4]),
        ([0, 1, 2, -1, 0.5], settings(2.0), [0, 1, 2, 3, 4]),
        ([0, 0, 0, 0, 0, 0, 0], settings(), [0, 1, 2, 3, 4, 5, 6]),
        ([3, 2, 1, 0, -1], settings(1.5, top_k=3), [0, 1, 2]),
        ([3, 2, 1, 0, -1], settings(1.0, top_p=0.8), [0, 1]),
        ([3, 2, 1, 0, -1], settings(1.0, min_p=0.1), [0, 1, 2]),
        ([4, 0], settings(), [0, 1]),
    ],
)
def test_frequencies_follow_the_softmax(row: list[float], asked: Array, kept: list[int]) -> None:
    """Chi-square over many positions is within five standard deviations of its expected value."""
    given, logits = Settings.of(asked, True, True, False), np.array(row, np.float32)
    seed = seed_of(12345)
    drawn = [choose_token(logits, given, seed, position) for position in range(DRAWS)]
    counts = np.bincount(drawn, minlength=len(row))
    assert np.flatnonzero(counts).tolist() == kept
    weights = np.exp(logits[kept].astype(np.float64) / float(asked[0]))
    wanted = DRAWS * weights / weights.sum()
    freedom = len(kept) - 1
    chi_square = float(((counts[kept] - wanted) ** 2 / wanted).sum())
    assert chi_square < freedom + 5 * math.sqrt(2 * freedom)


def test_a_flat_row_is_drawn_from_evenly() -> None:
    """Over seeds, and over a vocabulary that takes several workgroups."""
    given, logits = Settings.of(settings(), False, False, False), np.zeros(3000, np.float32)
    drawn = [choose_token(logits, given, seed_of(seed << 20), 9) for seed in range(800)]
    counts = np.bincount(np.array(drawn) // 300, minlength=10)
    assert float(((counts - 80) ** 2 / 80).sum()) < 9 + 5 * math.sqrt(18)


@pytest.mark.parametrize("history", [[0], [0, 2], [0, 0, -1, 9]])
def test_no_penalty_makes_infinities_smaller(history: list[int]) -> None:
    """Logits: +inf twice, and -inf; and beyond 2^126, which counts as the largest."""
    asked = Settings.of(settings(0.0, penalty=4.0), False, False, True)
    for largest in (math.inf, 1e38):
        row = np.array([largest, largest, -math.inf], np.float32)
        assert choose_token(row, asked, seed_of(1), 3, history) == 0
        keys = keys_of(row)
        op.penalize(keys, np.array(history), np.float32(0.25))
        assert keys.tolist() == keys_of(row).tolist()


@pytest.mark.parametrize("penalty", [0.0, -2.0, math.nan])
def test_what_is_no_penalty_changes_nothing(penalty: float) -> None:
    asked = Settings.of(settings(0.0, penalty=penalty), False, False, True)
    row = np.array([3, 2, -1], np.float32)
    assert choose_token(row, asked, seed_of(1), 3, [0, 1, 2]) == 0
    assert asked.penalty == 1
    asked = Settings.of(settings(0.0, penalty=4.0), False, False, True)
    assert choose_token(row[::-1].copy(), asked, seed_of(1), 3, [-1, 3, 99]) == 2


def test_a_token_that_is_allowed_is_drawn_though_it_has_no_chance() -> None:
    asked = Settings.of(settings(), False, False, False)
    row = np.array([1, -math.inf, 2, math.nan], np.float32)
    for allowed in ([1], [1, 3]):
        assert (
            choose_token(row, asked, seed_of(1), 3, allowed=op.mask_of(np.array(allowed), 4)) == 1
        )


@pytest.mark.parametrize("top_p", [1e-12, 1e-9, 1e-30])
def test_the_smallest_share_keeps_the_largest(top_p: float) -> None:
    asked = Settings.of(settings(5.0, top_p=top_p), False, True, False)
    keys = keys_of(np.array([1, 3, 2, 3], np.float32))
    assert op.kept_tokens(keys, asked)[0].tolist() == [1, 3]


# Lowering


def kernels(case: LiveCase) -> list[str]:
    return [dispatch.kernel for dispatch in lowered(case)[0].dispatches()]


@pytest.mark.parametrize(
    ("given", "tables"),
    [
        ({}, 0),
        ({"min_p": 0.1}, 0),
        ({"temperature": 0.0}, 0),
        ({"top_k": 5}, 4),
        ({"top_p": 0.5}, 4),
        ({"top_k": 5, "top_p": 0.5, "penalty": 1.2}, 8),
    ],
)
def test_only_steps_that_are_asked_for(given: dict[str, Any], tables: int) -> None:
    case = sample(logits_of(128256), (1,), [5, 6], **given)
    steps = ["sample_keys", *["sample_table"] * tables, "sample_draw", "argreduce_merge"]
    assert kernels(case) == steps


def test_settings_seeds_and_positions_lower_nothing() -> None:
    case = sample(logits_of(331), (0, 3, 14), [1, 2, 3] * 5, top_k=5, top_p=0.5, penalty=1.2)

    graph = read_graph(case.program())

    async def run() -> None:
        delegate, device = await make_delegate(graph)
        await delegate.run(RunRequest(case.inputs(0)))
        before = delegate.lowerings, len(device.plans)
        for step in (1, 2):
            logits, history, position, asked, seed = case.inputs(step)
            await delegate.run(RunRequest([logits, history, position, asked * 2, seed + 1]))
        assert (delegate.lowerings, len(device.plans)) == before

    wait(run())


@pytest.mark.parametrize("position", [-1, 4])
def test_a_position_beyond_the_history_is_refused(position: int) -> None:
    case = sample(logits_of(7), (0,), [1, 2, 3], penalty=1.2)

    graph = read_graph(case.program())

    async def run() -> None:
        delegate, _ = await make_delegate(graph)
        logits, history, _, *rest = case.inputs(0)
        with pytest.raises(WebpteError, match="a history of 3 tokens"):
            await delegate.run(RunRequest([logits, history, np.array([position], np.int32), *rest]))

    wait(run())


def call(
    logits: tuple[int, ...] = (1, 7),
    asked: int = 8,
    seed: Array | None = None,
    history: Array | None = None,
    penalized: bool = False,
    dtype: str = "float32",
    out: str = "int32",
) -> LiveCase:
    """One that is not right."""
    words = np.zeros(2, np.int32) if seed is None else seed
    row = np.zeros(logits, dtype)
    step = (row, history, 0, np.zeros(asked, np.float32), words, False, False, penalized)
    return LiveCase(SAMPLE, [step], lambda *_: np.zeros((1, 1)), out=out, exact=False)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (call((7,)), r"logits \[7\] are not"),
        (call((2, 7)), r"logits \[2, 7\]"),
        (call((1, 0)), r"logits \[1, 0\]"),
        (call((1, 0, 7)), r"logits \[1, 0, 7\]"),
        (call((1, 1, 1, 7)), r"logits \[1, 1, 1, 7\]"),
        (call(dtype="int32"), "defined for floats"),
        (call(asked=5), r"settings \[5\]"),
        (call(seed=np.zeros(1, np.int32)), r"a seed \[1\] of int32"),
        (call(seed=np.zeros(2, np.uint8)), r"a seed \[2\] of uint8"),
        (call(penalized=True), "a penalty needs a history"),
        (call(penalized=True, history=np.zeros(3, np.float32)), "a penalty needs a history"),
        (call(out="uint8"), "tokens are int32 or int64, not uint8"),
    ],
)
def test_wrong_arguments(case: LiveCase, message: str) -> None:
    with pytest.raises(GraphError, match=message) as caught:
        kernels(case)
    assert SAMPLE in str(caught.value)
