"""Conditions under which steps may run before the host has seen their tokens."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import webpte
from support.decoders.argmax import run_argmax
from support.graphs.graphs import wait
from support.graphs.small_llm import CONTEXT, VOCABULARY, logits_of, small_llm
from support.page.conversations import tokens_of
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import ContextError, DeviceError, ExecutionError
from webpte.llm import Generator
from webpte.llm.decode.decoder import decoder_of


def greedy(context: list[int], count: int) -> list[int]:
    """Return the expected tokens, computed in NumPy."""
    whole = list(context)
    for _ in range(count):
        whole.append(int(logits_of(whole)[-1].argmax()))
    return whole[len(context) :]


async def answer(data: bytes, **options: Any) -> tuple[list[int], str | None]:
    program = await webpte.load(data, device=SimulatedDevice())
    generation = Generator(program).generate([3, 1, 4], 12, **options)
    return await tokens_of(generation), generation.stats.step_by_step


def test_a_cache_that_follows_the_position_is_safe() -> None:
    async def run() -> None:
        tokens, reason = await answer(small_llm())
        assert reason is None
        assert tokens == greedy([3, 1, 4], 12)

    wait(run())


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"at": "computed"}, "may be where earlier tokens are"),
        ({"at": "fixed"}, "may be where earlier tokens are"),
        ({"count": True}, "not known to follow the position"),
        ({"negated": True}, "reads indices that are computed"),
        ({"rows": VOCABULARY - 1}, "12 tokens can be sampled, but it has 11"),
    ],
)
def test_what_is_not_known_to_be_safe_goes_step_by_step(wrong: Any, reason: str) -> None:
    async def run() -> None:
        _, told = await answer(small_llm(**wrong))
        assert told is not None
        assert reason in told

    wait(run())


def test_a_mask_may_look_at_the_whole_cache() -> None:
    async def run() -> None:
        program = await webpte.load(small_llm(mask=True), device=SimulatedDevice())
        assert not decoder_of(program, "forward").follows_position

    wait(run())


def test_tokens_are_the_same_in_both_ways() -> None:
    async def run() -> None:
        data = small_llm()
        for options in ({}, {"temperature": 1.0, "seed": 5}):
            ahead, _ = await answer(data, **options)
            one_by_one, reason = await answer(data, steps_ahead=1, **options)
            assert ahead == one_by_one
            assert reason == "steps_ahead is 1"

    wait(run())


def test_steps_whose_commands_change_go_one_by_one() -> None:
    """Steps go one by one only while their commands change."""

    async def run() -> None:
        data = small_llm(grows=True)
        ahead, reason = await answer(data)
        assert reason is None
        assert len(set(ahead)) > 2
        assert ahead == (await answer(data, steps_ahead=1))[0]

    wait(run())


@pytest.mark.parametrize(("model", "room"), [({}, CONTEXT), ({"places": 11}, 11)], ids=str)
def test_steps_that_nobody_asked_for_yet_may_be_impossible(model: Any, room: int) -> None:
    """Steps beyond the cache, or with an index out of range, end after the valid ones."""

    async def run() -> None:
        program = await webpte.load(small_llm(**model), device=SimulatedDevice())
        generation = Generator(program).generate([3, 1, 4], 99)
        with pytest.raises(ExecutionError, match=r"in 0 to 31|out of range"):
            await tokens_of(generation)
        assert len(generation.tokens) == room - 3 + 1

    wait(run())


def test_without_a_known_context_a_penalty_is_the_hosts() -> None:
    async def run() -> None:
        tokens, reason = await answer(small_llm(), repetition_penalty=1.5)
        assert len(tokens) == 12
        assert reason is not None
        assert "get_max_context_len" in reason

    wait(run())


@pytest.mark.parametrize("steps_ahead", [1, 4])
def test_state_that_is_still_to_be_put_back_comes_first(steps_ahead: int) -> None:
    """Restoring the cache after a profile fails; the answer continues all the same."""

    async def run() -> None:
        device = SimulatedDevice(features=("timestamp-query",))
        program = await webpte.load(small_llm(), device=device)
        generation = Generator(program).generate([3, 1, 4], 12, steps_ahead=steps_ahead)
        tokens = [await anext(generation) for _ in range(2)]
        device.inject(DeviceError, method="copy", after=2)
        await program.profile("forward", np.array([[7, 7, 7, 7]]), np.array([0]))
        tokens += await tokens_of(generation)
        assert tokens == greedy([3, 1, 4], 12)

    wait(run())


def test_memory_stays_until_steps_that_nobody_waits_for_have_run() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await webpte.load(small_llm(), device=device)
        generation = Generator(program).generate([3, 1, 4], 12)
        await anext(generation)
        device.pauses = lambda: 9
        await anext(generation)  # the next steps are under way now
        program.close()
        assert device.buffers
        for _ in range(20):
            await asyncio.sleep(0)
        assert not device.buffers
        assert not device.plans

    wait(run())


def test_an_index_that_only_the_gpu_sees_leaves_the_cache() -> None:
    """The argmax runs in the same submission, after kernels that have written to the cache."""

    async def run() -> None:
        program = await webpte.load(small_llm(negated=True), device=SimulatedDevice())
        await program.forward(np.array([[3, 1, 4]]), np.array([0]))
        with pytest.raises(ExecutionError, match="out of range"):
            await run_argmax(program, "forward", np.array([[50, 50, 50]]), np.array([0]))
        (logits,) = await program.forward(np.array([[1]]), np.array([3]))
        np.testing.assert_allclose(logits[0, 0], logits_of([3, 1, 4, 1])[-1], rtol=1e-5)

    wait(run())


def test_a_call_that_begins_while_steps_are_prepared_is_noticed() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await webpte.load(small_llm(), device=device)
        generation = Generator(program).generate([3, 1, 4], 12)
        await anext(generation)
        device.pauses = lambda: 5
        taking = asyncio.ensure_future(anext(generation))
        await asyncio.sleep(0)
        other = asyncio.ensure_future(program.forward(np.array([[7, 7, 7]]), np.array([0])))
        found = await asyncio.gather(taking, other, return_exceptions=True)
        assert isinstance(found[0], ContextError)
        with pytest.raises(ContextError):
            await anext(generation)

    wait(run())


@pytest.mark.parametrize("failing", ["create_plan", "create_pipelines"])
def test_what_cannot_be_made_leaves_no_memory(failing: str) -> None:
    """A batch of steps, and a sampler with a history."""

    async def run() -> None:
        device = SimulatedDevice()
        program = await webpte.load(small_llm(context=32), device=device)
        generator = Generator(program)
        generation = generator.generate([3, 1, 4], 12)
        if failing == "create_plan":
            await anext(generation)
        else:
            generation = generator.generate([3, 1, 4], 12, repetition_penalty=1.5)

        def large() -> int:  # what stays for other calls (a token, a word for faults) is small
            return sum(nbytes > 4 * 32 for nbytes in device.buffers.values())

        before = large()
        # Body and head have plans of their own for a token that is on the GPU; then the chain's.
        device.inject(DeviceError, method=failing, after=3 if failing == "create_plan" else 1)
        with pytest.raises(DeviceError, match="injected"):
            await anext(generation)
        assert large() == before

    wait(run())
