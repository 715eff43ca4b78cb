"""Speculation that is cancelled, fails, is closed, or meets other callers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from support.graphs.graphs import wait
from support.harness import extent
from support.llm.speculating import PROMPT, collect, open_program, unhurried
from support.page.conversations import cancelled_after, greedy, tokens_of
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import (
    ClosedError,
    ContextError,
    DeviceError,
    DeviceLostError,
    ExecutionError,
    OutOfMemoryError,
)
from webpte.llm import Generator


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    unhurried(monkeypatch)


def test_a_cancelled_round_can_be_asked_again(q4: Path) -> None:
    async def run() -> None:
        program, draft = await open_program(q4), await open_program(q4)
        answer = Generator(program).generate(PROMPT, 40, speculate=draft)
        found = [await anext(answer)]
        for one in (program, draft):
            assert isinstance(one.device, SimulatedDevice)
            one.device.pauses = lambda: 5
        for turns in range(1, 40, 4):
            found += await cancelled_after(turns, answer)
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


@pytest.mark.parametrize(
    "how", extent.some(["fails", "is used by another"], "is closed", "is lost")
)
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


def test_too_little_memory_turns_it_off(q4: Path) -> None:
    async def run() -> None:
        program = await open_program(q4)
        device, draft = program.device, await open_program(q4)
        assert isinstance(device, SimulatedDevice)
        answer = Generator(program).generate(PROMPT, 20, speculate=draft)
        found = [await anext(answer)]
        before = device.counts()["buffers"]
        device.inject(OutOfMemoryError, method="create_buffers")
        found += await tokens_of(answer)
        assert found == await greedy(q4, PROMPT, 20)
        assert "8 tokens at once cannot be built" in str(answer.stats.not_speculating)
        assert answer.stats.accepted_tokens == 0
        program.close()
        assert device.counts()["buffers"] == 0 < before

    wait(run())
