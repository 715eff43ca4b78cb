"""Lifetime of plans that consist of other plans."""

from __future__ import annotations

import numpy as np
import pytest

import webpte
from support.decoders.argmax import run_argmax
from support.graphs.graphs import wait
from support.graphs.small_llm import logits_of, small_llm
from support.page.conversations import tokens_of
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.run import delegate as delegate_module
from webpte.llm import Generator


def parts_are_there(device: SimulatedDevice) -> bool:
    """Return whether all sub-plans of the existing plans still exist."""
    parts = [part for commands in device.plans.values() for part in commands.parts]
    assert parts
    return all(part.plan in device.plans for part in parts)


def test_a_chain_goes_with_either_of_its_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evict the sampler's plan while the body's plan for one token stays in use; or both."""
    monkeypatch.setattr(delegate_module, "MAX_PLANS", 2)

    async def run() -> None:
        device = SimulatedDevice()
        program = await webpte.load(small_llm(), device=device)
        start = np.array([0])

        async def argmax(count: int) -> None:
            tokens = np.arange(count)[None]
            found = await run_argmax(program, "forward", tokens, start)
            assert found.tolist() == [logits_of(range(count)).argmax(axis=-1).tolist()]

        await argmax(1)
        for count in (2, 3):
            await argmax(count)
            await program.forward(np.array([[0]]), start)
            assert parts_are_there(device)
        for count in (4, 5, 6, 1):
            await argmax(count)
            assert parts_are_there(device)
        program.close()
        assert not device.plans
        assert not device.buffers

    wait(run())


def test_memory_of_steps_goes_with_their_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegate_module, "MAX_PLANS", 2)

    async def run() -> None:
        device = SimulatedDevice()
        program = await webpte.load(small_llm(), device=device)
        left = []
        for steps in (1, 8):
            await tokens_of(Generator(program).generate([3], 30, steps_ahead=steps))
            for count in (2, 3, 4):  # other plans displace the steps' plans
                await program.forward(np.arange(count)[None], np.array([0]))
            left.append(sorted(device.buffers.values()))
        assert left[0] == left[1]

    wait(run())


def test_a_chain_that_keeps_no_token_serves_no_steps() -> None:
    """Call the method for its argmax first, at the shapes at which an answer begins."""

    async def run() -> None:
        device = SimulatedDevice()
        program = await webpte.load(small_llm(), device=device)
        context = [3, 1, 4]
        await run_argmax(program, "forward", np.array([context]), np.array([0]))
        answer = Generator(program).generate(context, 5)
        found = await tokens_of(answer)
        for _ in range(5):
            context.append(int(logits_of(context)[-1].argmax()))
        assert found == context[3:]
        assert answer.stats.step_by_step is None

    wait(run())
