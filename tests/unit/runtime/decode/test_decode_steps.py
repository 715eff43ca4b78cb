"""Decode steps ahead: planned once, then replayed for as long as their plans serve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import webpte
from support.graphs.graphs import wait
from support.graphs.small_llm import small_llm
from support.page.conversations import tokens_of
from webpte.gpu.simulated.device import SimulatedDevice
from webpte.llm import Generator, decode
from webpte.runtime.decode.decode_steps import DecodeSteps
from webpte.runtime.execute.delegate import GpuDelegate
from webpte.runtime.execute.plan_selection import PlanSelector

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


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.9, "seed": 3},
        {"temperature": 0.7, "seed": 1, "repetition_penalty": 1.2, "logprobs": True},
    ],
)
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
    """As after autotuning, when nobody else has called the method."""

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
            options = {"temperature": 1.0, "seed": seed}
            generator.reset()
            found = await tokens_of(generator.generate(PROMPT, 16, steps_ahead=4, **options))
            assert found == await expected(16, options)

    wait(run())
