"""Rounds on the GPU whose tokens are guessed there by the conversation: the same tokens."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

import webpte
from support.devices.recorded import runs
from support.graphs.graphs import wait
from support.harness import extent
from support.llm.speculating import TURN, collect, in_parts, open_program, unhurried
from support.page.conversations import cancelled_after, greedy, tokens_of
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import ClosedError, ContextError, DeviceError, OutOfMemoryError
from webpte.llm import Generator, speculation
from webpte.llm.decode import guessed_rounds
from webpte.llm.generation import GenerationStats
from webpte.llm.proposals import PromptLookup
from webpte.llm.speculation import ROWS

REPEATED = [5, 9, 33, 7, 12, 80] * 4  # the tiny model repeats itself, too


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    unhurried(monkeypatch)


async def opened(path: Path) -> tuple[webpte.Program, SimulatedDevice]:
    program = await open_program(path)
    assert isinstance(program.device, SimulatedDevice)
    return program, program.device


def test_guesses_are_those_of_the_host(q4: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One round after the other, as the host has them."""
    monkeypatch.setattr(guessed_rounds, "MOST_ROUNDS", 1)

    async def run() -> GenerationStats:
        answer = Generator(await open_program(q4)).generate(REPEATED, 80, speculate="lookup")
        assert await tokens_of(answer) == await greedy(q4, REPEATED, 80)
        return answer.stats

    whole = wait(run())
    in_parts(monkeypatch)
    apart = wait(run())
    assert 0 < whole.accepted_tokens < whole.proposed_tokens
    # Rounds ahead of the host also run where nothing can be guessed.
    assert whole.accepted_tokens >= apart.accepted_tokens


def test_several_rounds_go_in_one_submission(q4: Path) -> None:
    """A model that repeats one token, which is guessed every time."""

    async def run() -> None:
        program, device = await opened(q4)
        answer = Generator(program).generate([7] * 20, 100, speculate="lookup")
        before = len(runs(device))
        assert await tokens_of(answer) == await greedy(q4, [7] * 20, 100)
        rounds = 13
        assert answer.stats.accepted_tokens == answer.stats.proposed_tokens == rounds * (ROWS - 1)
        assert len(runs(device)) - before < rounds - 4

    wait(run())


@pytest.mark.parametrize("taken", extent.some([17], 1, 2, 3, 8, 9, 10, 26))
def test_a_break_at_any_token_leaves_the_same_cache(q4: Path, taken: int) -> None:
    async def run() -> None:
        generator = Generator(await open_program(q4))
        answer = generator.generate(REPEATED, 60, speculate="lookup")
        found = [await anext(answer) for _ in range(taken)]
        assert generator.context == (*REPEATED, *found)
        more = await tokens_of(generator.continue_(TURN, 12, speculate="lookup"))
        assert more == await greedy(q4, [*REPEATED, *found, *TURN], 12)

    wait(run())


@pytest.mark.parametrize("length", extent.some([121], 96, 105, 112, 118, 127))
def test_a_context_that_is_nearly_full(q4: Path, length: int) -> None:
    async def run() -> None:
        prompt = (REPEATED * 6)[:length]
        answer = Generator(await open_program(q4)).generate(prompt, 50, speculate="lookup")
        found = await tokens_of(answer)
        assert found == await greedy(q4, prompt, 50)
        assert len(found) == 128 - length + 1

    wait(run())


def test_a_cancelled_round_can_be_asked_again(q4: Path) -> None:
    async def run() -> None:
        program, device = await opened(q4)
        answer = Generator(program).generate(REPEATED, 60, speculate="lookup")
        found = [await anext(answer)]
        device.pauses = lambda: 5
        for turns in range(1, 60, extent.count(19, 7)):
            found += await cancelled_after(turns, answer)
        found += await tokens_of(answer)
        assert found == await greedy(q4, REPEATED, 60)
        assert answer.stats.accepted_tokens

    wait(run())


@pytest.mark.parametrize("at_result", extent.some([True], False))
def test_rounds_that_fail_can_be_asked_again(q4: Path, at_result: bool) -> None:
    async def run() -> None:
        program, device = await opened(q4)
        generator = Generator(program)
        answer = generator.generate(REPEATED, 60, speculate="lookup")
        found = [await anext(answer) for _ in range(4)]
        device.inject(DeviceError, method="run", at_result=at_result)
        with pytest.raises(webpte.WebpteError, match="injected"):
            await collect(answer, found)
        assert generator.context == (*REPEATED, *found)
        found += await tokens_of(answer)
        assert found == await greedy(q4, REPEATED, 60)

    wait(run())


def test_closing_and_recovering_in_the_middle(q4: Path) -> None:
    async def run() -> None:
        program, device = await opened(q4)
        generator = Generator(program)
        answer = generator.generate(REPEATED, 40, speculate="lookup")
        for _ in range(4):
            await anext(answer)
        await program.recover()
        with pytest.raises(ContextError, match="recover"):
            await anext(answer)
        answer = generator.generate(REPEATED, 40, speculate="lookup")
        found = [await anext(answer) for _ in range(4)]
        assert found == await greedy(q4, REPEATED, 4)
        program.close()
        with pytest.raises(ClosedError):
            await anext(answer)
        for _ in range(20):
            await asyncio.sleep(0)
        assert device.counts()["buffers"] == device.counts()["plans"] == 0

    wait(run())


def test_too_little_memory_for_rounds(q4: Path) -> None:
    """Rounds go in parts where they cannot go as a whole, or not at all."""

    async def run() -> None:
        for nth in (1, 2, 3):
            program, device = await opened(q4)
            answer = Generator(program).generate(REPEATED, 24, speculate="lookup")
            found = [await anext(answer)]
            device.inject(OutOfMemoryError, method="create_buffers", after=nth)
            with suppress(OutOfMemoryError):  # of a plain step
                await collect(answer, found)
            found += await tokens_of(answer)
            assert found == await greedy(q4, REPEATED, 24)

    wait(run())


def test_it_watches_plain_steps_after_rounds(q4: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens of rounds are a part of the conversation that plain steps are compared with."""
    monkeypatch.setattr(speculation, "LEAST_REST", 4)
    known: list[tuple[int, ...]] = []
    watch = PromptLookup.watch

    def watching(self: PromptLookup, token: int) -> bool:
        known.append((*self._tokens, token))
        return watch(self, token)

    monkeypatch.setattr(PromptLookup, "watch", watching)

    async def run() -> None:
        generator = Generator(await open_program(q4))
        answer = generator.generate(REPEATED, 60, speculate="lookup")
        found = [*REPEATED, *await tokens_of(answer)]
        assert known
        for seen in known:
            if len(seen) > 1:  # nothing was looked for before the first
                assert list(seen) == found[: len(seen)]

    wait(run())
