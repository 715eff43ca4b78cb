"""Speculative rounds that run on the GPU as a whole: a draft and its target on one device."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import runs
from support.graphs.graphs import wait
from support.harness import extent
from support.llm.speculating import PROMPT, TURN, collect, unhurried
from support.page.conversations import cancelled_after, greedy, tokens_of
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import (
    ClosedError,
    ContextError,
    DeviceError,
    DeviceLostError,
    OutOfMemoryError,
)
from webpte.llm import Generator
from webpte.llm.speculation import ROWS
from webpte.llm.speculation_times import SpeculationTimes

OPTIONS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.3, "seed": 2},
    {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "seed": 3},
    {"logprobs": True, "top": 3},
    {"logprobs": True, "temperature": 0.9, "seed": 5},
    {"temperature": 1.2, "min_p": 0.02, "repetition_penalty": 1.4, "seed": 4},  # not as a whole
]


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    unhurried(monkeypatch)


async def pair(target: Path, draft: Path) -> tuple[webpte.Program, webpte.Program, SimulatedDevice]:
    """Load two programs on one device."""
    device = SimulatedDevice()
    programs = [await webpte.load(path, device=device, strict=True) for path in (target, draft)]
    return programs[0], programs[1], device


@pytest.mark.parametrize("options", extent.some([OPTIONS[3]], *OPTIONS), ids=str)
def test_no_token_changes(q4: Path, fp32: Path, options: dict[str, Any]) -> None:
    """The two models have the same weights, one of them rounded: they agree mostly."""

    async def run() -> None:
        program, draft, _ = await pair(fp32, q4)
        told = []
        for speculate in (None, draft):
            generator = Generator(program)
            answer = generator.generate(PROMPT, 60, speculate=speculate, **options)
            first = [await anext(answer) for _ in range(13)]
            second = generator.continue_(TURN, 20, speculate=speculate, **options)
            told.append((first, await tokens_of(second), answer.logprobs, second.logprobs))
        assert told[0][:2] == told[1][:2]
        for wanted, found in zip(told[0][2] + told[0][3], told[1][2] + told[1][3], strict=True):
            assert found.token == wanted.token
            assert found.logprob == pytest.approx(wanted.logprob, abs=1e-4)
        assert 0 < answer.stats.accepted_tokens < answer.stats.proposed_tokens
        assert answer.stats.not_speculating is None

    wait(run())


@pytest.mark.parametrize("count", extent.some([3], 1, 2, 5, 7))
def test_rounds_of_any_length(
    q4: Path, fp32: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        program, draft, _ = await pair(fp32, q4)
        for target, other in ((program, draft), (draft, program)):
            answer = Generator(target).generate(PROMPT, 26, speculate=other)
            assert await tokens_of(answer) == await greedy(
                fp32 if target is program else q4, PROMPT, 26
            )
            assert 0 < answer.stats.accepted_tokens < answer.stats.proposed_tokens

    monkeypatch.setattr(SpeculationTimes, "best_count", lambda _, most: min(most, count))
    wait(run())


def test_several_rounds_go_in_one_submission(q4: Path) -> None:
    async def run() -> None:
        program, draft, device = await pair(q4, q4)
        rounds = 7
        answer = Generator(program).generate(PROMPT, 1 + rounds * ROWS, speculate=draft)
        before = len(runs(device))
        assert await tokens_of(answer) == await greedy(q4, PROMPT, 1 + rounds * ROWS)
        stats = answer.stats
        assert stats.accepted_tokens == stats.proposed_tokens == rounds * (ROWS - 1)
        # The prompt in both models, and batches of 1, 2 and 4 rounds.
        assert len(runs(device)) - before == 2 + 3
        assert stats.submissions == 1 + 3, "the draft's prompt, and the batches"

    wait(run())


@pytest.mark.parametrize("taken", extent.some([17], 1, 2, 3, 8, 9, 10, 26))
def test_a_break_at_any_token_leaves_the_same_cache(q4: Path, fp32: Path, taken: int) -> None:
    async def run() -> None:
        program, draft, _ = await pair(fp32, q4)
        generator = Generator(program)
        answer = generator.generate(PROMPT, 60, speculate=draft)
        found = [await anext(answer) for _ in range(taken)]
        assert generator.context == (*PROMPT, *found)
        assert generator.pending == (found[-1],)
        more = await tokens_of(generator.continue_(TURN, 12, speculate=draft))
        assert more == await greedy(fp32, [*PROMPT, *found, *TURN], 12)

    wait(run())


@pytest.mark.thorough
def test_a_stop_token_among_the_accepted(q4: Path) -> None:
    async def run() -> None:
        free = await greedy(q4, PROMPT, 30)
        program, draft, _ = await pair(q4, q4)
        for place in (2, 5, 8, 9, 17):
            stop = free[place]
            generator = Generator(program)
            found = await tokens_of(generator.generate(PROMPT, 30, stop=[stop], speculate=draft))
            assert found == free[: free.index(stop)]
            assert generator.context == (*PROMPT, *found, stop)
            more = await tokens_of(generator.continue_([], 9, speculate=draft))
            assert more == await greedy(q4, [*PROMPT, *found, stop], 9)

    wait(run())


@pytest.mark.parametrize("length", extent.some([121], 96, 105, 112, 118, 127))
def test_a_context_that_is_nearly_full(q4: Path, fp32: Path, length: int) -> None:
    async def run() -> None:
        program, draft, _ = await pair(fp32, q4)
        prompt = [i % 300 for i in range(length)]
        answer = Generator(program).generate(prompt, 50, speculate=draft)
        found = await tokens_of(answer)
        assert found == await greedy(fp32, prompt, 50)
        assert len(found) == 128 - length + 1
        assert answer.stats.not_speculating in ("the context is nearly full", None)

    wait(run())


def test_a_cancelled_round_can_be_asked_again(q4: Path, fp32: Path) -> None:
    async def run() -> None:
        program, draft, device = await pair(fp32, q4)
        generator = Generator(program)
        answer = generator.generate(PROMPT, 40, speculate=draft)
        found = [await anext(answer)]
        device.pauses = lambda: 5
        for turns in range(1, 60, extent.count(19, 7)):
            found += await cancelled_after(turns, answer)
        found += await tokens_of(answer)
        assert found == await greedy(fp32, PROMPT, 40)
        assert answer.stats.accepted_tokens

    wait(run())


@pytest.mark.thorough
@pytest.mark.parametrize("at_result", [True, False])
def test_rounds_that_fail_can_be_asked_again(q4: Path, fp32: Path, at_result: bool) -> None:
    async def run() -> None:
        program, draft, device = await pair(fp32, q4)
        generator = Generator(program)
        answer = generator.generate(PROMPT, 60, speculate=draft)
        found = [await anext(answer) for _ in range(4)]
        device.inject(DeviceError, method="run", at_result=at_result)
        with pytest.raises(webpte.WebpteError, match="injected"):
            await collect(answer, found)
        assert generator.context == (*PROMPT, *found)
        found += await tokens_of(answer)
        assert found == await greedy(fp32, PROMPT, 60)

    wait(run())


def test_a_lost_device_fails_the_answer_and_recovers(q4: Path, fp32: Path) -> None:
    async def run() -> None:
        program, draft, device = await pair(fp32, q4)
        generator = Generator(program)
        answer = generator.generate(PROMPT, 60, speculate=draft)
        found = [await anext(answer) for _ in range(4)]
        device.inject(DeviceLostError, method="run")
        with pytest.raises(DeviceLostError):
            await collect(answer, found)
        assert found == (await greedy(fp32, PROMPT, 60))[: len(found)]

    wait(run())


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["is closed", "is used by another"])
def test_a_draft_that_is_gone_does_not_fail_the_answer(q4: Path, fp32: Path, how: str) -> None:
    async def run() -> None:
        program, draft, _ = await pair(fp32, q4)
        answer = Generator(program).generate(PROMPT, 60, speculate=draft)
        found = [await anext(answer) for _ in range(4)]
        if how == "is closed":
            draft.close()
        else:
            await draft.forward(np.array([[3]]), np.array([0]))
        found += await tokens_of(answer)
        assert found == await greedy(fp32, PROMPT, 60)
        reason = answer.stats.not_speculating
        if how == "is closed":
            assert "the draft llama_tiny_q4.pte failed" in str(reason)
        else:
            assert reason is None

    wait(run())


def test_closing_and_recovering_in_the_middle(q4: Path) -> None:
    async def run() -> None:
        program, draft, device = await pair(q4, q4)
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
        draft.close()
        for _ in range(20):
            await asyncio.sleep(0)
        assert device.counts()["buffers"] == device.counts()["plans"] == 0

    wait(run())


def test_too_little_memory_for_rounds(q4: Path) -> None:
    """Rounds go in parts where they cannot go as a whole, or not at all."""

    async def run() -> None:
        for nth in (1, 2, 3):
            program, draft, device = await pair(q4, q4)
            answer = Generator(program).generate(PROMPT, 14, speculate=draft)
            found = [await anext(answer)]
            device.inject(OutOfMemoryError, method="create_buffers", after=nth)
            found += await tokens_of(answer)
            assert found == await greedy(q4, PROMPT, 14)

    wait(run())


def test_rounds_rest_where_they_do_not_pay(q4: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        program, draft, _ = await pair(q4, q4)
        answer = Generator(program).generate(PROMPT, 40, speculate=draft)
        assert await tokens_of(answer) == await greedy(q4, PROMPT, 40)
        assert answer.stats.not_speculating == "slow"
        assert answer.stats.accepted_tokens

    monkeypatch.setattr(SpeculationTimes, "loss", "slow")
    wait(run())
