"""Decode steps ahead: planned once, then replayed for as long as their plans serve."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import webpte
from support.graphs.graphs import wait
from support.graphs.small_llm import small_llm
from support.page.conversations import tokens_of
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.plans import PlanSelector
from webpte.llm import Generator
from webpte.llm import decode_loop as decode
from webpte.llm.decode.decode_steps import DecodeSteps

PROMPT = [5, 9, 3]


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the sizes of batches independent of the machine."""
    monkeypatch.setattr(decode, "BATCH_SECONDS", 1e6)


def counted(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[Any]:
    """Return a list that gets an item with each call of a method."""
    seen: list[Any] = []
    inner: Callable[..., Any] = getattr(owner, name)

    def call(*given: Any) -> Any:
        seen.append(given)
        return inner(*given)

    monkeypatch.setattr(owner, name, call)
    return seen


async def opened(**kind: Any) -> Generator:
    return Generator(await webpte.load(small_llm(**kind), device=SimulatedDevice()))


async def expected(count: int, options: dict[str, Any], **kind: Any) -> list[int]:
    generator = Generator(await webpte.load(small_llm(**kind), device="numpy"))
    return await tokens_of(generator.generate(PROMPT, count, **options))


OPTIONS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.9, "seed": 3},
    {"temperature": 0.7, "seed": 1, "repetition_penalty": 1.2, "logprobs": True},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_an_answer_is_planned_once(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        generator = await opened(context=32)
        answer = generator.generate(PROMPT, 20, steps_ahead=2, **options)
        first = [await anext(answer), await anext(answer)]
        submitted = counted(monkeypatch, DecodeSteps, "submit")
        planned = counted(monkeypatch, PlanSelector, "for_request")
        prepared = counted(monkeypatch, GpuDelegate, "prepare")
        rest = await tokens_of(answer)
        assert [*first, *rest] == await expected(20, options, context=32)
        assert len(submitted) > 5
        assert not planned
        assert not prepared

    wait(run())


@pytest.mark.parametrize("options", OPTIONS)
def test_steps_one_by_one_are_planned_once(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        generator = await opened(context=32)
        answer = generator.generate(PROMPT, 12, steps_ahead=1, **options)
        first = [await anext(answer), await anext(answer)]
        planned = counted(monkeypatch, PlanSelector, "for_request")
        rest = await tokens_of(answer)
        assert not planned
        assert [*first, *rest] == await expected(12, options, context=32)
        assert answer.stats.submissions == 11
        assert answer.stats.step_by_step == "steps_ahead is 1"

    wait(run())


def test_a_step_that_was_cancelled_runs_again() -> None:
    """The token on the GPU is then the next one, or not: the host's is written again."""

    async def run() -> None:
        device = SimulatedDevice()
        generator = Generator(await webpte.load(small_llm(), device=device))
        answer = generator.generate(PROMPT, 10, steps_ahead=1)
        found = [await anext(answer) for _ in range(3)]
        for turns in range(6):
            step = asyncio.ensure_future(anext(answer))
            for _ in range(turns):
                await asyncio.sleep(0)
            step.cancel()
            (ended,) = await asyncio.gather(step, return_exceptions=True)
            found += [ended] if isinstance(ended, int) else [await anext(answer)]
        found += await tokens_of(answer)
        assert found == await expected(10, {})

    wait(run())


def test_a_step_that_failed_runs_again() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        generator = Generator(await webpte.load(small_llm(), device=device))
        answer = generator.generate(PROMPT, 8, steps_ahead=1)
        found = [await anext(answer) for _ in range(3)]
        inner = device.run

        def fail(run: Any) -> Any:
            device.run = inner  # type: ignore[method-assign]
            raise webpte.errors.DeviceError("no")

        device.run = fail  # type: ignore[method-assign]
        with pytest.raises(webpte.errors.DeviceError, match="method 'forward': no"):
            await anext(answer)
        found += await tokens_of(answer)
        assert found == await expected(8, {})

    wait(run())


def test_where_a_table_of_positions_ends_steps_do_too() -> None:
    """The embedding of positions has fewer rows than the cache: the error names its call."""

    async def run() -> None:
        generator = await opened(places=9)
        answer = generator.generate(PROMPT, 20, steps_ahead=4)
        found = [await anext(answer) for _ in range(7)]
        assert found == await expected(7, {}, places=9)
        with pytest.raises(webpte.errors.IndexRangeError, match="embedding"):
            await anext(answer)

    wait(run())


def test_a_program_that_grows_is_planned_for_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        generator = await opened(grows=True)
        answer = generator.generate(PROMPT, 12, steps_ahead=4)
        planned = counted(monkeypatch, PlanSelector, "for_request")
        found = await tokens_of(answer)
        assert answer.stats.step_by_step is None
        assert answer.stats.submissions == 11, "one step each"
        assert len(planned) >= 12
        monkeypatch.undo()
        assert found == await expected(12, {}, grows=True)

    wait(run())


def test_plans_that_went_away_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear plans as autotuning does, while nobody else calls the method."""

    async def run() -> None:
        generator = await opened()
        answer = generator.generate(PROMPT, 20, steps_ahead=2)
        found = [await anext(answer) for _ in range(4)]
        for delegate in generator.program._build.gpu_delegates:
            async with delegate.turn():
                delegate.plans.clear()
        planned = counted(monkeypatch, PlanSelector, "for_request")
        found += await tokens_of(answer)
        assert len(planned) == 2, "of the body and of the sampler, once"
        assert found == await expected(20, {})

    wait(run())


def test_two_answers_of_other_seeds_have_their_own_steps() -> None:
    async def run() -> None:
        generator = await opened()
        for seed in (1, 2, 1):
            options: dict[str, Any] = {"temperature": 1.0, "seed": seed}
            generator.reset()
            found = await tokens_of(generator.generate(PROMPT, 16, steps_ahead=4, **options))
            assert found == await expected(16, options)

    wait(run())
