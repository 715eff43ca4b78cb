"""Conversations of several turns: cached and pending tokens, and the owner of the cache."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import wait
from support.harness import extent
from support.page.conversations import (
    change_calls,
    failing,
    greedy,
    load,
    restore_calls,
    slow,
    tokens_of,
)
from webpte.engine.run.build import Build
from webpte.errors import ContextError, ExecutionError, InputError
from webpte.llm import Generator
from webpte.llm.bench import bench_llm

FIRST, SECOND, THIRD = [5, 9, 33, 7], [81, 402], [17, 3, 260]

# Takes the turn's tokens, and the next three tokens that the model will say.
Ending = Callable[[Generator, list[int], list[int]], Awaitable[list[int]]]


@pytest.fixture(params=extent.some(["llama_tiny_q4"], "llama_tiny_fp32"))
def path(root: Path, request: pytest.FixtureRequest) -> Path:
    return root / "tests/data/llm" / f"{request.param}.pte"


# Ways to end an answer. Each returns the tokens that the answer adds to the context.


async def by_count(generator: Generator, turn: list[int], _: object = ()) -> list[int]:
    return await tokens_of(generator.continue_(turn, 4))


async def by_no_tokens(generator: Generator, turn: list[int], _: object = ()) -> list[int]:
    return await tokens_of(generator.continue_(turn, 0))


async def by_break(generator: Generator, turn: list[int], _: object = ()) -> list[int]:
    taken = []
    async for token in generator.continue_(turn, 9):
        taken.append(token)
        if len(taken) == 3:
            break
    return taken


async def by_stop_token(generator: Generator, turn: list[int], coming: list[int]) -> list[int]:
    """End at a stop token, which is generated, but not yielded."""
    stop = coming[-1]
    taken = await tokens_of(generator.continue_(turn, 9, stop=[stop]))
    assert stop not in taken
    return [*taken, stop]


async def by_exception(generator: Generator, turn: list[int], _: object = ()) -> list[int]:
    taken = []
    try:
        async for token in generator.continue_(turn, 9):
            taken.append(token)
            if len(taken) == 2:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    return taken


async def by_failure(generator: Generator, turn: list[int], _: object = ()) -> list[int]:
    """Fail the third step of an answer on the device."""
    answer = generator.continue_(turn, 9)
    taken = [await anext(answer), await anext(answer)]
    with failing(generator.program), pytest.raises(ExecutionError, match="no device"):
        await anext(answer)
    return taken


ENDINGS: list[Ending] = [  # the usual run takes every second one
    by_break,
    by_count,
    by_stop_token,
    by_no_tokens,
    by_failure,
    by_exception,
]


@pytest.mark.parametrize("end", extent.share(ENDINGS, 2))
def test_a_conversation_is_its_whole_context(path: Path, end: Ending) -> None:
    async def run() -> None:
        generator = Generator(await load(path))
        context: list[int] = []
        for turn in (FIRST, SECOND, THIRD):
            coming = await greedy(path, [*context, *turn], 3)
            context = [*context, *turn, *await end(generator, turn, coming)]
            assert generator.position + len(generator.pending) == len(context)
            assert context[generator.position :] == list(generator.pending)
        last = await tokens_of(generator.continue_([44], 6))
        assert last == await greedy(path, [*context, 44], 6)

    wait(run())


def test_a_turn_without_new_tokens_goes_on(fp32: Path) -> None:
    async def run() -> None:
        generator = Generator(await load(fp32))
        halves = [await tokens_of(generator.continue_(new, 5)) for new in (FIRST, [])]
        assert halves[0] + halves[1] == await greedy(fp32, FIRST, 10)

    wait(run())


def test_reset_forgets_what_is_pending(fp32: Path) -> None:
    async def run() -> None:
        generator = Generator(await load(fp32))
        await by_break(generator, FIRST)
        waiting = len(generator.pending)
        generator.reset()
        assert [waiting, generator.position, len(generator.pending)] == [1, 0, 0]
        assert await by_count(generator, SECOND) == await greedy(fp32, SECOND, 4)

    wait(run())


def test_a_full_context_is_told_before_anything_is_written(fp32: Path) -> None:
    async def run() -> None:
        program = await load(fp32)
        generator = Generator(program)
        await tokens_of(generator.continue_(list(range(100)), 5))
        assert (generator.position, len(generator.pending)) == (104, 1)
        ran = program.stats.executions
        for attempt in (
            generator.prefill(range(24)),
            anext(generator.continue_([1] * 24, 1)),
        ):
            with pytest.raises(
                InputError, match="104 tokens, 1 pending and 24 more are over the 128"
            ):
                await attempt
        assert (generator.position, len(generator.pending)) == (104, 1)
        assert program.stats.executions == ran
        answer = await tokens_of(generator.continue_([1] * 23, 5))
        assert len(answer) == 1  # the last token needs no room in the cache
        with pytest.raises(InputError, match="over the 128"):
            await anext(generator.continue_([], 1))

    wait(run())


def test_a_rebuilt_program_has_an_empty_cache(fp32: Path) -> None:
    async def run() -> None:
        program = await load(fp32)
        generator = Generator(program)
        answer = generator.continue_(FIRST, 9)
        await anext(answer)
        assert program.generation == 0
        await program.recover()
        assert program.generation == 1
        for attempt in (anext(answer), anext(generator.continue_(SECOND, 1))):
            with pytest.raises(ContextError, match=r"was rebuilt by recover\(\).*reset\(\)"):
                await attempt
        generator.reset()
        assert await by_count(generator, FIRST) == await greedy(fp32, FIRST, 4)

    wait(run())


def test_a_recovery_that_fails_leaves_the_conversation(fp32: Path, monkeypatch: Any) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise ExecutionError("not today")

    async def run() -> None:
        program = await load(fp32)
        generator = Generator(program)
        answer = await by_count(generator, FIRST)
        with monkeypatch.context() as patch:
            patch.setattr(Build, "create", fail)
            with pytest.raises(ExecutionError):
                await program.recover()
        assert program.generation == 0
        assert answer + await by_count(generator, []) == await greedy(fp32, FIRST, 8)

    wait(run())


def test_the_cache_belongs_to_the_generator_that_wrote_last(fp32: Path) -> None:
    async def run() -> None:
        program = await load(fp32)
        one, other = Generator(program), Generator(program)
        answer = one.continue_(FIRST, 9)
        await anext(answer)
        found = await by_count(other, SECOND)
        for attempt in (anext(answer), anext(one.continue_([1], 1)), one.prefill([1])):
            with pytest.raises(ContextError, match=r"'forward'.*another.*reset\(\)"):
                await attempt
        found += await by_count(other, [])
        assert found == await greedy(fp32, SECOND, 8)
        one.reset()
        assert await by_count(one, FIRST) == await greedy(fp32, FIRST, 4)
        with pytest.raises(ContextError):
            await by_count(other, [])

    wait(run())


def test_a_direct_call_in_between_is_noticed(fp32: Path) -> None:
    async def run() -> None:
        program = await load(fp32)
        generator = Generator(program)
        await by_count(generator, FIRST)
        await program.forward(np.array([[3]]), np.array([0]))
        with pytest.raises(ContextError, match="called"):
            await by_count(generator, SECOND)

    wait(run())


def test_two_answers_at_once_do_not_mix(fp32: Path) -> None:
    async def run() -> None:
        program = await load(fp32)
        slow(program)
        generator = Generator(program)
        answers = await asyncio.gather(
            *(tokens_of(generator.continue_(turn, 4)) for turn in (FIRST, SECOND)),
            return_exceptions=True,
        )
        assert answers[0] == await greedy(fp32, FIRST, 4)
        assert isinstance(answers[1], ContextError)
        assert "one answer at a time" in str(answers[1])

    wait(run())


def test_an_answer_ends_when_another_begins(fp32: Path) -> None:
    async def run() -> None:
        generator = Generator(await load(fp32))
        first = generator.continue_(FIRST, 9)
        said = [await anext(first), await anext(first)]
        second = await by_count(generator, SECOND)
        assert second == await greedy(fp32, [*FIRST, *said, *SECOND], 4)
        with pytest.raises(ContextError, match="one answer at a time"):
            await anext(first)
        # That changed nothing.
        context = [*FIRST, *said, *SECOND, *second]
        assert await by_count(generator, []) == await greedy(fp32, context, 4)

    wait(run())


@pytest.mark.parametrize("at_once", [True, False])
def test_two_generators_at_once_do_not_mix(fp32: Path, at_once: bool) -> None:
    async def run() -> None:
        program = await load(fp32)
        slow(program)
        generators = Generator(program), Generator(program)
        if not at_once:
            await by_count(generators[0], FIRST)
        results = await asyncio.gather(
            *(by_count(g, turn) for g, turn in zip(generators, (FIRST, SECOND), strict=True)),
            return_exceptions=True,
        )
        assert isinstance(results[0], ContextError)
        assert isinstance(results[1], ContextError) or results[1] == await greedy(fp32, SECOND, 4)

    wait(run())


@pytest.mark.parametrize("length", [3, 90])
def test_a_cancelled_feed_changes_nothing(fp32: Path, length: int) -> None:
    """Cancel a prefill of 90 tokens between its two calls."""

    async def run() -> None:
        program = await load(fp32)
        generator = Generator(program)
        said = await by_count(generator, FIRST)
        before = generator.position, generator.pending
        turn = list(range(length))
        slow(program)
        answer = generator.continue_(turn, 4)
        task = asyncio.ensure_future(anext(answer))
        for _ in range(8 if length > generator.max_chunk else 2):
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (generator.position, generator.pending) == before
        found = await tokens_of(answer)  # the same answer can be asked for again
        assert found == await greedy(fp32, [*FIRST, *said, *turn], 4)

    wait(run())


def test_a_timeout_leaves_the_conversation(fp32: Path) -> None:
    async def run() -> None:
        program = await load(fp32)
        generator = Generator(program)
        said = await by_count(generator, FIRST)
        before = generator.position, generator.pending
        stuck = asyncio.Event()

        async def never(running: Awaitable[Any]) -> None:
            await running
            await stuck.wait()

        change_calls(program, never)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(generator.prefill(SECOND), 0.05)
        restore_calls(program)
        assert (generator.position, generator.pending) == before
        assert await by_count(generator, THIRD) == await greedy(fp32, [*FIRST, *said, *THIRD], 4)

    wait(run())


def test_a_feed_that_fails_does_not_end_an_answer(fp32: Path) -> None:
    async def run() -> None:
        generator = Generator(await load(fp32))
        answer = generator.continue_(FIRST, 4)
        said = [await anext(answer)]
        with pytest.raises(InputError, match="over the 128"):
            await generator.prefill([1] * 200)
        assert said + await tokens_of(answer) == await greedy(fp32, FIRST, 4)

    wait(run())


def test_a_prompt_over_the_context_is_told_without_an_answer(fp32: Path) -> None:
    async def run() -> None:
        generator = Generator(await load(fp32))
        answer = generator.continue_([1] * 129, 0)
        for _ in range(2):
            with pytest.raises(InputError, match="over the 128"):
                await anext(answer)
        assert generator.position == len(generator.pending) == 0

    wait(run())


def test_what_feed_returns_is_the_callers_business(fp32: Path) -> None:
    async def run() -> None:
        generator = Generator(await load(fp32))
        token = await generator.prefill(FIRST)
        assert (generator.position, generator.pending) == (len(FIRST), ())
        assert [token] == await greedy(fp32, FIRST, 1)
        answer = generator.continue_([token], 9)
        said = [await anext(answer), await anext(answer)]
        after = await generator.prefill([1])
        assert [after] == await greedy(fp32, [*FIRST, token, *said, 1], 1)
        with pytest.raises(ContextError, match="one answer at a time"):
            await anext(answer)

    wait(run())


def test_a_bench_fills_the_cache_before_it_decodes(fp32: Path) -> None:
    """Timing every kernel is a call of the method, too, and writes to the cache."""

    async def run() -> None:
        figures = await bench_llm(await load(fp32), [5], decode_steps=2)
        assert set(figures) == {"prefill_5", "decode_5", "ahead_5", "sampled_5"}

    wait(run())


def test_a_call_during_a_feed_is_noticed_by_it(fp32: Path) -> None:
    async def run() -> None:
        program = await load(fp32)
        generator = Generator(program)
        said = await by_count(generator, FIRST)
        slow(program)
        feeding = asyncio.ensure_future(generator.prefill(SECOND))
        await asyncio.sleep(0)
        await program.forward(np.array([[3]]), np.array([0]))
        with pytest.raises(ContextError, match="called"):
            await feeding
        assert generator.context == (*FIRST, *said)

    wait(run())


def test_a_context_that_is_empty_does_not_care_what_was_rebuilt(fp32: Path) -> None:
    async def run() -> None:
        program = await load(fp32)
        generator = Generator(program)
        await program.recover()
        assert [await generator.prefill(FIRST)] == await greedy(fp32, FIRST, 1)

    wait(run())
