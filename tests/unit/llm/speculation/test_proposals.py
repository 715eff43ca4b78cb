"""Guesses of tokens, and the cost of guessing."""

from __future__ import annotations

from pathlib import Path

import pytest

import webpte
from support.graphs.graphs import wait
from support.graphs.small_llm import small_llm
from support.llm.speculating import PROMPT, WrongGuesses, in_parts, open_program, unhurried
from support.page.conversations import greedy, tokens_of
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.llm import Generator, speculation
from webpte.llm.bench import bench_llm
from webpte.llm.proposals import PromptLookup
from webpte.llm.speculation import ROWS
from webpte.llm.speculation_times import SpeculationTimes


def test_a_lookup_copies_what_followed() -> None:
    async def run() -> None:
        lookup = PromptLookup()
        assert await lookup.propose([1, 2, 3, 4], 3) == []
        assert await lookup.propose([1, 2, 3, 4, 9, 1, 2], 3) == [3, 4, 9]
        # The latest place counts, and the longest match before that.
        assert await lookup.propose([1, 2, 3, 4, 9, 1, 2, 7, 1, 2], 2) == [7, 1]
        assert await lookup.propose([1, 2, 3, 4, 9, 1, 2, 7, 1, 2, 3], 2) == [4, 9]
        # The copied place ends before the guess does: the guess goes on with the same period.
        assert await PromptLookup().propose([5, 6, 7, 5, 6, 7, 5, 6], 7) == [7, 5, 6, 7, 5, 6, 7]
        # Another conversation.
        assert await lookup.propose([2, 8, 2, 8, 2, 8], 3) == [2, 8, 2]
        assert await lookup.propose([], 3) == []

    wait(run())


def test_a_lookup_tells_when_it_would_be_right() -> None:
    async def run() -> None:
        lookup = PromptLookup()
        assert not lookup.watch(1)
        story = [1, 2, 3, 4, 5, 6, 7]
        assert await lookup.propose([*story, 9], 3) == []
        told = [lookup.watch(token) for token in [1, 2, 3, 4, 5, 8, 6]]
        assert told == [False, False, False, False, True, False, False]
        # What it has watched is a part of the conversation.
        whole = [*story, 9, 1, 2, 3, 4, 5, 8, 6]
        assert await lookup.propose([*whole, 4, 5], 3) == [8, 6, 4]

    wait(run())


def test_a_rest_ends_when_guesses_would_be_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that repeats itself from some token on."""
    unhurried(monkeypatch)
    monkeypatch.setattr(speculation, "LEAST_REST", 64)

    async def run() -> None:
        program = await webpte.load(small_llm(context=32), device=SimulatedDevice())
        plain = await tokens_of(Generator(program).generate([1], 28))
        answer = Generator(program).generate([1], 28, speculate="lookup", steps_ahead=2)
        assert await tokens_of(answer) == plain
        assert answer.stats.proposed_tokens > 0, plain

    wait(run())


def test_rounds_that_do_not_pay_give_way() -> None:
    times = SpeculationTimes()
    times.note_plain(8, 8 * 0.01)
    for _ in range(9):
        times.note_rounds(7, [0], 0.02)
    assert times.loss is not None
    assert "a plain step takes 10.0 ms" in times.loss
    for _ in range(9):
        times.note_rounds(7, [7], 0.02)
    assert times.loss is None


def test_a_draft_that_is_mostly_wrong_proposes_little() -> None:
    for rate, counts in ((0, {1}), (7, {7})):
        times, count = SpeculationTimes(), 7
        for _ in range(30):
            times.note_rounds(count, [min(rate, count)], 0.01 + count * 0.002)
            count = times.best_count(7)
        assert count in counts


def test_the_time_of_other_counts_follows_from_measured_ones() -> None:
    times = SpeculationTimes()
    for count in (7, 7, 3, 7, 3):
        times.note_rounds(count, [1, 1], 2 * (0.004 + count * 0.001))
    assert times._round_seconds(5) == pytest.approx(0.009)
    assert times._round_seconds(1) == pytest.approx(0.005)


def test_bad_guesses_are_left_to_plain_steps(q4: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(10**6))
    monkeypatch.setattr(speculation, "PromptLookup", WrongGuesses)
    in_parts(monkeypatch)
    # A round takes as long as a plain step.
    monkeypatch.setattr(speculation, "perf_counter", lambda: float(next(seconds)))

    async def run() -> None:
        generator = Generator(await open_program(q4))
        answer = generator.generate(PROMPT, 60, speculate="lookup")
        assert await tokens_of(answer) == await greedy(q4, PROMPT, 60)
        assert answer.stats.accepted_tokens == 0
        # Three trials, a measurement of plain steps, and a round after longer and longer rests.
        assert answer.stats.proposed_tokens < 9 * (ROWS - 1)

    wait(run())


def test_a_bench_with_a_draft() -> None:
    async def run() -> None:
        file = small_llm(context=32)
        program, draft = [await webpte.load(file, device="numpy") for _ in range(2)]
        figures = await bench_llm(program, [5], decode_steps=1, draft=draft)
        assert {"ahead_5", "drafted_5", "drafted_sampled_5", "lookup_5"} < set(figures)
        assert "guesses right" in figures["drafted_5"]["guesses"]

    wait(run())
