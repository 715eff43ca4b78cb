"""Speculation: the same tokens and the same caches as without, in fewer calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import runs
from support.graphs.graphs import wait
from support.graphs.small_llm import small_llm
from support.harness import extent
from support.page.conversations import greedy, tokens_of
from webpte.bench import bench_llm
from webpte.errors import (
    ClosedError,
    ContextError,
    DeviceError,
    DeviceLostError,
    ExecutionError,
    InputError,
    VocabularyError,
)
from webpte.gpu.simulated.device import SimulatedDevice
from webpte.llm import Generation, Generator, OneOf, decode, speculation
from webpte.llm.proposals import PromptLookup
from webpte.llm.speculation import ROWS, Payoff

PROMPT, TURN = [5, 9, 33, 7], [81, 402]
REPEATED = [5, 9, 33, 7, 12, 80] * 4  # the tiny model repeats itself, too

OPTIONS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.3, "seed": 2},
    {"temperature": 1.0, "seed": 7},
    {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "seed": 3},
    {"temperature": 1.2, "min_p": 0.02, "repetition_penalty": 1.4, "seed": 4},
    {"repetition_penalty": 1.3},
    {"logprobs": True, "top": 3},
    {"logprobs": True, "temperature": 0.9, "seed": 5},
]


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make batches and rounds independent of the machine's speed: rounds always pay."""
    monkeypatch.setattr(decode, "BATCH_SECONDS", 1e6)
    monkeypatch.setattr(Payoff, "loss", None)
    monkeypatch.setattr(Payoff, "best_count", lambda _, most: most)
    monkeypatch.setattr(speculation, "TRIALS", -1)
    for name in ("LEAST_REST", "MOST_REST"):
        monkeypatch.setattr(speculation, name, 1)


@pytest.fixture
def q4(root: Path) -> Path:
    return root / "tests/data/llm/llama_tiny_q4.pte"


@pytest.fixture
def fp32(root: Path) -> Path:
    return root / "tests/data/llm/llama_tiny_fp32.pte"


async def open_program(path: Path | bytes, device: str = "simulated") -> webpte.Program:
    chosen = SimulatedDevice() if device == "simulated" else device
    return await webpte.load(path, device=chosen, strict=device == "simulated")


async def collect(answer: Generation, found: list[int]) -> None:
    async for token in answer:
        found.append(token)


async def conversation(
    program: webpte.Program, options: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    """Return two answers, the first of which is broken off, and their statistics."""
    generator = Generator(program)
    answer = generator.continue_(REPEATED, 60, **options)
    first = [await anext(answer) for _ in range(23)]
    second = generator.continue_(TURN, 40, **options)
    told = [first, await tokens_of(second), answer.logprobs, second.logprobs]
    return told, [answer.stats, second.stats]


@pytest.mark.parametrize("device", extent.some(["simulated"], "numpy"))
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_lookup_changes_no_token(q4: Path, options: dict[str, Any], device: str) -> None:
    async def run() -> None:
        program = await open_program(q4, device)
        plain, _ = await conversation(program, options)
        guessed, stats = await conversation(program, {**options, "speculate": "lookup"})
        assert guessed[:2] == plain[:2]
        for found, wanted in zip(guessed[2] + guessed[3], plain[2] + plain[3], strict=True):
            assert found.token == wanted.token
            assert found.logprob == pytest.approx(wanted.logprob, abs=1e-4)
        if not options.get("temperature") and "repetition_penalty" not in options:
            assert sum(one.proposed_tokens for one in stats) > 0

    wait(run())


@pytest.mark.parametrize("device", extent.some(["simulated"], "numpy"))
@pytest.mark.parametrize("options", OPTIONS[:5], ids=str)
def test_a_draft_changes_no_token(
    q4: Path, fp32: Path, options: dict[str, Any], device: str
) -> None:
    """The two models have the same weights, one of them rounded: they agree mostly."""

    async def run() -> None:
        program, draft = await open_program(fp32, device), await open_program(q4, device)
        plain, _ = await conversation(program, options)
        guessed, stats = await conversation(program, {**options, "speculate": draft})
        assert guessed == plain
        proposed = sum(one.proposed_tokens for one in stats)
        accepted = sum(one.accepted_tokens for one in stats)
        assert 0 < accepted < proposed
        assert stats[0].not_speculating is None

    wait(run())


def test_a_draft_that_is_right_takes_few_rounds(q4: Path) -> None:
    async def run() -> None:
        program, draft = await open_program(q4), await open_program(q4)
        answer = Generator(program).generate(PROMPT, 1 + 6 * ROWS, speculate=draft)
        assert await tokens_of(answer) == await greedy(q4, PROMPT, 1 + 6 * ROWS)
        stats = answer.stats
        assert stats.accepted_tokens == stats.proposed_tokens == 6 * (ROWS - 1)
        device = program.device
        assert isinstance(device, SimulatedDevice)
        assert len(runs(device)) == 1 + 6, "a prefill, and one call for each round"

    wait(run())


def test_a_lookup_is_right_on_text_that_repeats(q4: Path) -> None:
    async def run() -> None:
        program = await open_program(q4)
        generator = Generator(program)
        answer = generator.generate(REPEATED, 90, speculate="lookup")
        assert await tokens_of(answer) == await greedy(q4, REPEATED, 90)
        assert 5 < answer.stats.accepted_tokens < answer.stats.proposed_tokens

    wait(run())


class WrongGuesses(PromptLookup):
    """Proposes tokens that never come."""

    async def propose(self, context: Sequence[int], count: int) -> list[int]:
        return [511] * count


def test_guesses_that_are_always_wrong(q4: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        free = await greedy(q4, PROMPT, 30)
        assert 511 not in free
        answer = Generator(await open_program(q4)).generate(PROMPT, 30, speculate="lookup")
        assert await tokens_of(answer) == free
        assert answer.stats.accepted_tokens == 0
        assert answer.stats.proposed_tokens > 100

    monkeypatch.setattr(speculation, "PromptLookup", WrongGuesses)
    wait(run())


@pytest.mark.parametrize("taken", [1, 2, 3, 8, 9, 10])
def test_a_break_at_any_token_leaves_the_same_cache(q4: Path, taken: int) -> None:
    async def run() -> None:
        generator = Generator(await open_program(q4))
        draft = await open_program(q4)
        answer = generator.generate(PROMPT, 40, speculate=draft)
        found = [await anext(answer) for _ in range(taken)]
        assert generator.context == (*PROMPT, *found)
        assert generator.pending == (found[-1],)
        more = await tokens_of(generator.continue_(TURN, 5))
        assert more == await greedy(q4, [*PROMPT, *found, *TURN], 5)

    wait(run())


def test_a_stop_token_in_the_middle_of_a_round(q4: Path) -> None:
    async def run() -> None:
        free = await greedy(q4, PROMPT, 12)
        draft = await open_program(q4)
        for stop in free[2:10:3]:
            generator = Generator(await open_program(q4))
            answer = generator.generate(PROMPT, 12, stop=[stop], speculate=draft)
            found = await tokens_of(answer)
            assert found == free[: free.index(stop)]
            assert generator.context == (*PROMPT, *found, stop)
            more = await tokens_of(generator.continue_([], 4))
            assert more == await greedy(q4, [*PROMPT, *found, stop], 4)

    wait(run())


def test_a_full_context(q4: Path) -> None:
    async def run() -> None:
        draft = await open_program(q4)
        prompt = [i % 300 for i in range(105)]
        answer = Generator(await open_program(q4)).generate(prompt, 50, speculate=draft)
        found = await tokens_of(answer)
        assert found == await greedy(q4, prompt, 50)
        assert len(found) == 128 - 105 + 1
        assert answer.stats.accepted_tokens
        assert answer.stats.not_speculating == "the context is nearly full"

    wait(run())


def test_a_context_of_unknown_length() -> None:
    """The cache ends where the program does not say: plain steps go to its very end."""

    async def run() -> None:
        file = small_llm()
        wanted: list[int] = []
        program = await webpte.load(file, device=SimulatedDevice())
        with pytest.raises(ExecutionError):
            await collect(Generator(program).generate([1, 2, 3], 60), wanted)
        found: list[int] = []
        with pytest.raises(ExecutionError):
            await collect(Generator(program).generate([1, 2, 3], 60, speculate="lookup"), found)
        assert found == wanted
        assert len(found) > 20

    wait(run())


@pytest.mark.parametrize("chunk", [1, 2, 3, 8])
def test_programs_that_give_all_logits_and_take_few_tokens(chunk: int) -> None:
    async def run() -> None:
        program = await webpte.load(small_llm(chunk=chunk, context=32), device=SimulatedDevice())
        plain = await tokens_of(Generator(program).generate([1, 2, 1, 2], 20))
        answer = Generator(program).generate([1, 2, 1, 2], 20, speculate="lookup")
        assert await tokens_of(answer) == plain
        if chunk == 1:
            assert answer.stats.not_speculating == "the program takes one token per call"
        else:
            assert answer.stats.proposed_tokens > 0

    wait(run())


@pytest.mark.parametrize("given", [{"at": "computed"}, {"count": True}], ids=str)
def test_state_that_cannot_go_back_turns_it_off(given: dict[str, Any]) -> None:
    async def run() -> None:
        program = await webpte.load(small_llm(context=32, **given), device=SimulatedDevice())
        plain = await tokens_of(Generator(program).generate([1, 2, 1, 2], 12))
        await program.recover()
        answer = Generator(program).generate([1, 2, 1, 2], 12, speculate="lookup")
        assert await tokens_of(answer) == plain
        assert answer.stats.accepted_tokens == 0
        assert answer.stats.not_speculating

    wait(run())


def test_a_constraint_turns_it_off(q4: Path) -> None:
    async def run() -> None:
        constraint = OneOf([[5, 9, 33], [81]])
        generator = Generator(await open_program(q4))
        answer = generator.generate(REPEATED, 9, constraint=constraint, speculate="lookup")
        assert await tokens_of(answer) in ([5, 9, 33], [81])
        assert "depends on the one before" in str(answer.stats.not_speculating)

    wait(run())


def test_wrong_requests(q4: Path) -> None:
    async def run() -> None:
        program = await open_program(q4, "numpy")
        generator = Generator(program)
        with pytest.raises(InputError, match=r'speculate is "lookup", a loaded program.*not 3'):
            generator.generate(PROMPT, 5, speculate=3)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="its own draft"):
            generator.generate(PROMPT, 5, speculate=program)
        other = await webpte.load(small_llm(), device="numpy")
        with pytest.raises(VocabularyError, match=r"another vocabulary.*12 and 512"):
            generator.generate(PROMPT, 5, speculate=other)

    wait(run())


# Interruptions


def test_a_cancelled_round_can_be_asked_again(q4: Path) -> None:
    async def run() -> None:
        program, draft = await open_program(q4), await open_program(q4)
        answer = Generator(program).generate(PROMPT, 40, speculate=draft)
        found = [await anext(answer)]
        for one in (program, draft):
            assert isinstance(one.device, SimulatedDevice)
            one.device.pauses = lambda: 5
        for turns in range(1, 40, 4):
            task = asyncio.ensure_future(anext(answer))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            results = await asyncio.gather(task, return_exceptions=True)
            found += [token for token in results if isinstance(token, int)]
        found += await tokens_of(answer)
        assert found == await greedy(q4, PROMPT, 40)
        assert answer.stats.accepted_tokens

    wait(run())


@pytest.mark.parametrize("at_result", [True, False])
def test_a_round_that_fails_can_be_asked_again(q4: Path, at_result: bool) -> None:
    async def run() -> None:
        program, draft = await open_program(q4), await open_program(q4)
        generator = Generator(program)
        answer = generator.generate(PROMPT, 24, speculate=draft)
        found = [await anext(answer) for _ in range(4)]
        assert isinstance(program.device, SimulatedDevice)
        program.device.inject(DeviceError, method="run", at_result=at_result)
        with pytest.raises((ExecutionError, DeviceError), match="injected"):
            await collect(answer, found)
        assert generator.context == (*PROMPT, *found)
        found += await tokens_of(answer)
        assert found == await greedy(q4, PROMPT, 24)

    wait(run())


@pytest.mark.parametrize("how", ["fails", "is closed", "is lost", "is used by another"])
def test_a_draft_that_fails_does_not_fail_the_answer(q4: Path, how: str) -> None:
    async def run() -> None:
        program, draft = await open_program(q4), await open_program(q4)
        answer = Generator(program).generate(PROMPT, 40, speculate=draft)
        found = [await anext(answer) for _ in range(4)]
        assert isinstance(draft.device, SimulatedDevice)
        if how == "fails":
            draft.device.inject(DeviceError, method="run")
        elif how == "is closed":
            draft.close()
        elif how == "is lost":
            draft.device.inject(DeviceLostError, method="run")
        else:
            await draft.forward(np.array([[3]]), np.array([0]))
        found += await tokens_of(answer)
        assert found == await greedy(q4, PROMPT, 40)
        reason = answer.stats.not_speculating
        if how == "is used by another":
            assert reason is None
        else:
            assert reason is not None
            assert "the draft llama_tiny_q4.pte failed" in reason

    wait(run())


def test_closing_and_recovering_in_the_middle(q4: Path) -> None:
    async def run() -> None:
        program = await open_program(q4)
        draft, device = await open_program(q4), program.device
        assert isinstance(device, SimulatedDevice)
        generator = Generator(program)
        answer = generator.generate(PROMPT, 40, speculate=draft)
        for _ in range(4):
            await anext(answer)
        await program.recover()
        with pytest.raises(ContextError, match="recover"):
            await anext(answer)
        answer = generator.generate(PROMPT, 40, speculate=draft)
        found = [await anext(answer) for _ in range(4)]
        assert found == await greedy(q4, PROMPT, 4)
        program.close()
        with pytest.raises(ClosedError):
            await anext(answer)
        for _ in range(20):
            await asyncio.sleep(0)
        assert device.counts()["buffers"] == device.counts()["plans"] == 0

    wait(run())


def test_a_foreign_call_in_between_is_noticed_at_once(q4: Path) -> None:
    async def run() -> None:
        program, draft = await open_program(q4), await open_program(q4)
        generator = Generator(program)
        answer = generator.generate(PROMPT, 40, speculate=draft)
        for _ in range(5):
            await anext(answer)
        await program.forward(np.array([[3]]), np.array([0]))
        with pytest.raises(ContextError, match="called"):
            await anext(answer)
        again = await tokens_of(generator.generate(PROMPT, 6, speculate=draft))
        assert again == await greedy(q4, PROMPT, 6)

    wait(run())


# Guesses and their price


def test_a_lookup_copies_what_followed() -> None:
    async def run() -> None:
        lookup = PromptLookup()
        assert await lookup.propose([1, 2, 3, 4], 3) == []
        assert await lookup.propose([1, 2, 3, 4, 9, 1, 2], 3) == [3, 4, 9]
        # The latest place counts, and the longest match before that.
        assert await lookup.propose([1, 2, 3, 4, 9, 1, 2, 7, 1, 2], 2) == [7, 1]
        assert await lookup.propose([1, 2, 3, 4, 9, 1, 2, 7, 1, 2, 3], 2) == [4, 9]
        # A copy of what is still to come: a period goes on.
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
    monkeypatch.setattr(speculation, "LEAST_REST", 64)

    async def run() -> None:
        program = await webpte.load(small_llm(context=32), device=SimulatedDevice())
        plain = await tokens_of(Generator(program).generate([1], 28))
        answer = Generator(program).generate([1], 28, speculate="lookup", steps_ahead=2)
        assert await tokens_of(answer) == plain
        assert answer.stats.proposed_tokens > 0, plain

    wait(run())


def test_rounds_that_do_not_pay_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    payoff = Payoff()
    payoff.note_plain(8, 8 * 0.01)
    for _ in range(9):
        payoff.note_round(7, 0, 1, 0.0, 0.02)
    assert payoff.loss is not None
    assert "a plain step takes 10.0 ms" in payoff.loss
    for _ in range(9):
        payoff.note_round(7, 7, 8, 0.0, 0.02)
    assert payoff.loss is None


def test_a_draft_that_is_mostly_wrong_proposes_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for accepted, counts in ((0, {1}), (7, {7})):
        payoff = Payoff()
        for _ in range(30):
            payoff.note_round(7, accepted, accepted + 1, 7 * 0.002, 0.01)
        assert payoff.best_count(7) in counts


def test_bad_guesses_are_left_to_plain_steps(q4: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(speculation, "PromptLookup", WrongGuesses)

    async def run() -> None:
        generator = Generator(await open_program(q4))
        answer = generator.generate(PROMPT, 90, speculate="lookup")
        assert await tokens_of(answer) == await greedy(q4, PROMPT, 90)
        assert answer.stats.accepted_tokens == 0
        # Three trials, a measurement of plain steps, and a round after longer and longer rests.
        assert answer.stats.proposed_tokens < 9 * (ROWS - 1)

    wait(run())


def test_a_bench_with_a_draft(q4: Path, fp32: Path) -> None:
    async def run() -> None:
        program, draft = await open_program(fp32, "numpy"), await open_program(q4, "numpy")
        figures = await bench_llm(program, [5], decode_steps=2, draft=draft)
        assert {"ahead_5", "drafted_5", "drafted_sampled_5", "lookup_5"} < set(figures)
        assert "guesses right" in figures["drafted_5"]["guesses"]

    wait(run())
