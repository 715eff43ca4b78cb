"""Sampling: its settings, its distribution, and its seeds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from webpte.errors import InputError
from webpte.llm.decode.sampling import (
    SamplerSettings,
    Sampling,
    check_most,
    check_stop,
    seed_words,
)

LOGITS = np.array([0.0, 3.0, 1.0, 2.0, -1.0], np.float32)
SEED = seed_words(7)


def drawn(sampling: Sampling, count: int = 200, history: Sequence[int] = ()) -> Counter[int]:
    settings = SamplerSettings(sampling, SEED)
    return Counter(settings.choose(LOGITS, at, history) for at in range(count))


def test_a_low_temperature_takes_the_largest() -> None:
    assert drawn(Sampling(temperature=0.01)) == {1: 200}
    assert drawn(Sampling(temperature=0.0)) == {1: 200}
    assert drawn(Sampling(temperature=1e-300)) == {1: 200}


@pytest.mark.parametrize("temperature", [100.0, 1e300])
def test_a_high_temperature_takes_everything(temperature: float) -> None:
    counts = drawn(Sampling(temperature=temperature))
    assert set(counts) == {0, 1, 2, 3, 4}
    assert max(counts.values()) < 65


def test_top_k_leaves_the_k_largest() -> None:
    assert set(drawn(Sampling(temperature=5.0, top_k=2))) == {1, 3}


@pytest.mark.parametrize(
    ("top_p", "left"),
    [(1e-300, {1}), (0.1, {1}), (0.64, {1, 3}), (1.0, {0, 1, 2, 3, 4})],
)
def test_top_p_leaves_the_smallest_set_that_reaches_it(top_p: float, left: set[int]) -> None:
    # softmax: 0.03, 0.64, 0.09, 0.23, 0.01; 0.636 of the first is just below 0.64
    assert set(drawn(Sampling(temperature=1.0, top_p=top_p), 300)) == left


def test_top_p_is_of_what_top_k_left() -> None:
    """The likeliest token has 0.64 of all five, and 0.73 of the first two."""
    assert set(drawn(Sampling(temperature=1.0, top_k=2, top_p=0.7))) == {1}
    assert set(drawn(Sampling(temperature=1.0, top_p=0.7))) == {1, 3}


@pytest.mark.parametrize(
    ("min_p", "left"), [(0.0, {0, 1, 2, 3, 4}), (0.1, {1, 2, 3}), (0.3, {1, 3}), (1.0, {1})]
)
def test_min_p_is_a_share_of_the_largest(min_p: float, left: set[int]) -> None:
    # exp(logit - 3): 0.05, 1, 0.14, 0.37, 0.02
    assert set(drawn(Sampling(temperature=1.0, min_p=min_p), 300)) == left


def test_a_penalty_makes_tokens_rarer_that_were_there() -> None:
    greedy = SamplerSettings(Sampling(repetition_penalty=2.0), SEED)
    assert greedy.choose(LOGITS, 0) == 1
    assert greedy.choose(LOGITS, 3, [1, 1, 1]) == 3  # 1.5 is below 2.0
    assert greedy.choose(LOGITS, 2, [1, 3]) == 1  # 1.5 is above 1.0 and the other 1.0
    assert greedy.choose(-LOGITS, 2, [4, 0]) == 4  # 0.5 is above -0.0
    often, rare = Sampling(1.0, repetition_penalty=0.5), Sampling(1.0, repetition_penalty=1.5)
    counts = [drawn(s, 300, [2])[2] for s in (often, Sampling(1.0), rare)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 1.5 * counts[2]


def test_frequencies_follow_the_softmax() -> None:
    weights = np.exp(LOGITS) / np.exp(LOGITS).sum()
    counts = drawn(Sampling(temperature=1.0), 800)
    assert [counts[i] / 800 for i in range(5)] == pytest.approx(weights, abs=0.03)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"temperature": value} for value in (-1.0, math.nan, math.inf)),
        *({"top_k": value} for value in (0, -1)),
        *({"top_p": value} for value in (0.0, 1.5, math.nan)),
        *({"min_p": value} for value in (-0.1, 1.5, math.nan)),
        *({"repetition_penalty": value} for value in (0.0, -1.0, math.nan, math.inf)),
    ],
    ids=str,
)
def test_sampling_that_makes_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        Sampling(**wrong)


@pytest.mark.parametrize(
    ("sampling", "flags", "greedy"),
    [
        (Sampling(), (False, False, False), True),
        (Sampling(0.0, 5, 0.5, 0.1), (False, False, False), True),
        (Sampling(1.0), (False, False, False), False),
        (Sampling(1.0, 5, 0.5, 0.1, 1.2), (True, True, True), False),
        (Sampling(1.0, top_p=1.0, repetition_penalty=1.0), (False, False, False), False),
        (Sampling(repetition_penalty=1.2), (False, False, True), False),
    ],
)
def test_only_steps_that_are_needed(
    sampling: Sampling, flags: tuple[bool, ...], greedy: bool
) -> None:
    settings = SamplerSettings(sampling, SEED)
    assert settings.flags == flags
    assert settings.is_greedy == greedy
    assert settings.values.dtype == np.float32
    assert settings.values.shape == (8,)


def test_settings_are_finite_and_in_order() -> None:
    given = SamplerSettings(Sampling(0.75, 40, 0.5, 0.25, 1.5), SEED)
    assert given.values.tolist() == [0.75, 40, 0.5, 0.25, 1.5, 0, 0, 0]
    extreme = SamplerSettings(Sampling(1e300, 10**400, 1e-300, 1e-300, 1e300), SEED).values
    assert np.all(np.isfinite(extreme))
    assert extreme[2] > 0


def test_seeds() -> None:
    assert seed_words(0).tolist() == [0, 0]
    assert seed_words(2**64 - 1).tolist() == [-1, -1]
    assert seed_words(3 << 32 | 5).tolist() == [5, 3]
    assert seed_words(1).dtype == np.int32
    assert seed_words(None).tolist() != seed_words(None).tolist()


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_that_is_none(seed: int) -> None:
    with pytest.raises(InputError, match=r"from 0 to 2\^64 - 1"):
        seed_words(seed)


def test_seeds_and_positions_have_chances_of_their_own() -> None:
    flat = np.zeros(1000, np.float32)

    def chosen(seed: int, position: int = 0) -> int:
        return SamplerSettings.of(Sampling(1.0), seed).choose(flat, position)

    by_seed = {chosen(seed) for seed in range(50)}
    by_high_word = {chosen(seed << 32) for seed in range(50)}
    by_position = {chosen(7, position) for position in range(50)}
    assert min(map(len, (by_seed, by_high_word, by_position))) > 40


@pytest.mark.parametrize("name", ["temperature", "top_k", "top_p", "min_p", "repetition_penalty"])
@pytest.mark.parametrize("value", ["x", 10**400, float("nan"), float("inf"), True, [1]])
def test_options_that_are_no_numbers(name: str, value: Any) -> None:
    if name == "top_k" and value == 10**400:
        assert Sampling(top_k=value).top_k == value  # keeps all tokens
        return
    with pytest.raises(InputError, match=f"{name} (must be|is too large)"):
        Sampling(**{name: value})


@pytest.mark.parametrize("seed", ["a", 1.5, True, -1, 2**64, [1]])
def test_seeds_that_are_no_seeds(seed: Any) -> None:
    with pytest.raises(InputError, match="a seed must be an integer"):
        SamplerSettings.of(Sampling(), seed)


@pytest.mark.parametrize("stop", [5, "a", None, ["a"], [1.5]])
def test_stops_that_are_no_tokens(stop: Any) -> None:
    with pytest.raises(InputError, match="stop must be a list of tokens"):
        check_stop(stop)


@pytest.mark.parametrize("most", ["a", 1.5, None, True])
def test_limits_that_are_no_integers(most: Any) -> None:
    with pytest.raises(InputError, match="max_new_tokens must be an integer"):
        check_most(most)
