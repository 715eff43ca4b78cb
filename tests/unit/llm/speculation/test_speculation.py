"""Speculation: the same tokens and the same caches as without, in fewer calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import webpte
from support.devices.recorded import runs
from support.graphs.graphs import wait
from support.graphs.small_llm import small_llm
from support.harness import extent
from support.llm.speculating import (
    PROMPT,
    TURN,
    WrongGuesses,
    collect,
    in_parts,
    open_program,
    unhurried,
)
from support.page.conversations import greedy, tokens_of
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import (
    ExecutionError,
    InputError,
    VocabularyError,
)
from webpte.llm import Generator, OneOf, speculation
from webpte.llm.speculation import ROWS

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
    unhurried(monkeypatch)


async def conversation(
    program: webpte.Program, options: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    """Return two answers, the first of which is broken off, and their statistics."""
    generator = Generator(program)
    answer = generator.continue_(REPEATED, 40, **options)
    first = [await anext(answer) for _ in range(13)]
    second = generator.continue_(TURN, 20, **options)
    told = [first, await tokens_of(second), answer.logprobs, second.logprobs]
    return told, [answer.stats, second.stats]


@pytest.mark.parametrize("device", extent.some(["simulated"], "numpy"))
@pytest.mark.parametrize("options", extent.some([OPTIONS[3], OPTIONS[6]], *OPTIONS), ids=str)
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


def test_a_lookup_of_the_host_changes_no_token(q4: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        program = await open_program(q4)
        plain, _ = await conversation(program, {})
        guessed, stats = await conversation(program, {"speculate": "lookup"})
        assert guessed == plain
        assert sum(one.proposed_tokens for one in stats) > 0

    in_parts(monkeypatch)
    wait(run())


@pytest.mark.parametrize("device", extent.some(["simulated"], "numpy"))
@pytest.mark.parametrize("options", extent.some([OPTIONS[3]], *OPTIONS[:5]), ids=str)
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
        answer = Generator(program).generate(PROMPT, 1 + 3 * ROWS, speculate=draft)
        assert await tokens_of(answer) == await greedy(q4, PROMPT, 1 + 3 * ROWS)
        stats = answer.stats
        assert stats.accepted_tokens == stats.proposed_tokens == 3 * (ROWS - 1)
        device = program.device
        assert isinstance(device, SimulatedDevice)
        assert len(runs(device)) == 1 + 3, "a prefill, and one call for each round"

    wait(run())


def test_a_lookup_is_right_on_text_that_repeats(q4: Path) -> None:
    async def run() -> None:
        program = await open_program(q4)
        generator = Generator(program)
        answer = generator.generate(REPEATED, 90, speculate="lookup")
        assert await tokens_of(answer) == await greedy(q4, REPEATED, 90)
        assert 5 < answer.stats.accepted_tokens < answer.stats.proposed_tokens

    wait(run())


def test_guesses_that_are_always_wrong(q4: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        free = await greedy(q4, PROMPT, 30)
        assert 511 not in free
        answer = Generator(await open_program(q4)).generate(PROMPT, 30, speculate="lookup")
        assert await tokens_of(answer) == free
        assert answer.stats.accepted_tokens == 0
        assert answer.stats.proposed_tokens > 100

    monkeypatch.setattr(speculation, "PromptLookup", WrongGuesses)
    in_parts(monkeypatch)
    wait(run())


@pytest.mark.parametrize("taken", extent.some([8], 1, 2, 3, 9, 10))
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
        for stop in free[2:10:5]:
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


@pytest.mark.parametrize("chunk", extent.share([1, 2, 3, 8]))
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
