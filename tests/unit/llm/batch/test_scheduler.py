"""Several answers at once: each has the tokens that it would have alone."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.graphs.small_llm import CONTEXT, VOCABULARY, logits_of, small_llm
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import ClosedError, DeviceError, DeviceLostError, InputError, UnsupportedError
from webpte.llm import BatchedGeneration, Generator, Scheduler

SAMPLED: list[dict[str, Any]] = [
    {},
    {"temperature": 1.0, "seed": 1},
    {"temperature": 0.8, "top_k": 4, "top_p": 0.9, "seed": 2},
    {"temperature": 1.2, "min_p": 0.05, "repetition_penalty": 1.6, "seed": 3},
    {"repetition_penalty": 1.4},
]


def prompt_of(length: int, seed: int = 0) -> list[int]:
    tokens: list[int] = np.random.default_rng(seed).integers(0, VOCABULARY, length).tolist()
    return tokens


def greedy(prompt: list[int], count: int) -> list[int]:
    """Return the tokens that follow a prompt, by NumPy alone."""
    context = list(prompt)
    for _ in range(count):
        context.append(int(np.argmax(logits_of(context)[-1])))
    return context[len(prompt) :]


async def load(device: str | SimulatedDevice = "numpy") -> webpte.Program:
    return await webpte.load(small_llm(context=CONTEXT), device=device)


async def taken(answer: BatchedGeneration) -> list[int]:
    return [token async for token in answer]


async def alone(program: webpte.Program, prompt: list[int], count: int, **asked: Any) -> list[int]:
    return [token async for token in Generator(program).generate(prompt, count, **asked)]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("device", ["numpy", "simulated"])
def test_tokens_are_those_of_one_answer_alone(device: str, count: int) -> None:
    """Seven answers share three slots: some join when others leave."""

    async def run() -> None:
        program = await load(SimulatedDevice() if device == "simulated" else device)
        async with program, Scheduler(program, slots=3, chunk=8) as scheduler:
            jobs = [(prompt_of(1 + 4 * n % 13, n), 2 + 3 * n % 11) for n in range(count)]
            answers = [scheduler.submit(prompt, length) for prompt, length in jobs]
            found = await asyncio.gather(*map(taken, answers))
            assert found == [greedy(*job) for job in jobs]
            assert {answer.why_ended for answer in answers} == {"length"}
            assert scheduler.running == scheduler.waiting == 0

    wait(run())


def test_each_answer_has_its_own_settings() -> None:
    async def run() -> None:
        async with await load(SimulatedDevice()) as program:
            wanted = [await alone(program, prompt_of(5, 1), 9, **asked) for asked in SAMPLED]
            async with Scheduler(program, slots=4) as scheduler:
                answers = [scheduler.submit(prompt_of(5, 1), 9, **asked) for asked in SAMPLED]
                assert await asyncio.gather(*map(taken, answers)) == wanted
            # The program's own cache is unchanged.
            assert await alone(program, prompt_of(5, 1), 9) == wanted[0]

    wait(run())


def test_an_answer_joins_while_another_goes_on() -> None:
    async def run() -> None:
        async with await load(SimulatedDevice()) as program, Scheduler(program) as scheduler:
            first = scheduler.submit(prompt_of(3), 25)
            begun = [await anext(first) for _ in range(5)]
            second = scheduler.submit(prompt_of(4, 1), 3)
            assert await taken(second) == greedy(prompt_of(4, 1), 3)
            assert len(first.tokens) < 25
            assert begun + await taken(first) == greedy(prompt_of(3), 25)
            assert scheduler.stats.steps < 25 + 3

    wait(run())


def test_a_long_prompt_does_not_stop_the_others() -> None:
    """A prompt is read in parts that fit a step: the other answer gets a token with each part."""

    async def run() -> None:
        async with await load() as program, Scheduler(program, slots=2, chunk=4) as scheduler:
            first = scheduler.submit(prompt_of(2), 20)
            await anext(first)
            second = scheduler.submit(prompt_of(24, 1), 2)
            known = len(first.tokens)
            await anext(second)
            assert len(first.tokens) - known >= 7
            assert [*second.tokens, *await taken(second)][-1] == greedy(prompt_of(24, 1), 2)[-1]

    wait(run())


def test_a_stop_token_ends_an_answer() -> None:
    async def run() -> None:
        async with await load(SimulatedDevice()) as program, Scheduler(program) as scheduler:
            wanted = greedy(prompt_of(4), 12)
            end = next(n for n, token in enumerate(wanted) if token not in wanted[:n] and n)
            answer = scheduler.submit(prompt_of(4), 12, stop=[wanted[end]])
            assert await taken(answer) == wanted[:end]
            assert answer.why_ended == "stop"

    wait(run())


def test_a_full_context_ends_an_answer() -> None:
    async def run() -> None:
        async with await load() as program, Scheduler(program, max_context=10) as scheduler:
            answer = scheduler.submit(prompt_of(7), 50)
            assert await taken(answer) == greedy(prompt_of(7), 4)
            assert answer.why_ended == "full"
            nothing = scheduler.submit(prompt_of(3), 0)
            assert await taken(nothing) == []
            assert nothing.why_ended == "length"

    wait(run())


def test_a_cancelled_answer_frees_its_slot() -> None:
    async def run() -> None:
        async with (
            await load(SimulatedDevice()) as program,
            Scheduler(program, slots=1) as scheduler,
        ):
            first, second = scheduler.submit(prompt_of(3), 25), scheduler.submit(prompt_of(4, 1), 5)
            third = scheduler.submit(prompt_of(5, 2), 5)
            await anext(first)
            assert (scheduler.running, scheduler.waiting) == (1, 2)
            first.cancel()
            third.cancel()
            assert (scheduler.running, scheduler.waiting) == (0, 0)  # it gets the free slot
            assert await taken(second) == greedy(prompt_of(4, 1), 5)
            assert len([*first.tokens]) < 25
            assert await taken(first) == first.tokens[1:]
            assert await taken(third) == []
            assert first.why_ended == third.why_ended == "cancelled"

    wait(run())


def test_an_answer_that_nobody_holds_is_cancelled() -> None:
    async def run() -> None:
        async with await load() as program, Scheduler(program, slots=1) as scheduler:
            answer = scheduler.submit(prompt_of(3), 25)
            await anext(answer)
            del answer
            gc.collect()
            assert scheduler.running == 0

    wait(run())


def test_a_wrong_request_leaves_the_others_alone() -> None:
    async def run() -> None:
        async with await load() as program, Scheduler(program) as scheduler:
            answer = scheduler.submit(prompt_of(3), 6)
            for wrong, options in (
                ([], {}),
                ([VOCABULARY], {}),
                ([-1], {}),
                ([1] * (CONTEXT + 1), {}),
                ([1], {"temperature": -1.0}),
                ([1], {"seed": -1}),
            ):
                with pytest.raises(InputError):
                    scheduler.submit(wrong, 5, **options)
            assert await taken(answer) == greedy(prompt_of(3), 6)

    wait(run())


def test_the_next_turn_of_a_conversation_finds_its_slot() -> None:
    async def run() -> None:
        async with await load(SimulatedDevice()) as program, Scheduler(program, 3) as scheduler:
            prompt, other = prompt_of(6), prompt_of(6, 5)
            answers = [scheduler.submit(one, 4) for one in (other, prompt)]
            tokens = (await asyncio.gather(*map(taken, answers)))[1]
            turn = [*prompt, *tokens, 3, 8]
            again = scheduler.submit(turn, 5)
            assert await taken(again) == greedy(turn, 5)
            # All but the last token of the answer, which no step has taken.
            assert again.stats.reused_tokens == len(prompt) + len(tokens) - 1
            assert again.stats.prefill_tokens == 3

    wait(run())


def test_an_error_ends_all_answers_and_later_ones_begin_anew() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        async with await load(device) as program, Scheduler(program) as scheduler:
            answers = [scheduler.submit(prompt_of(3, n), 20) for n in range(2)]
            await anext(answers[0])
            device.inject(method="run")
            for answer in answers:
                with pytest.raises(DeviceError):
                    await taken(answer)
            assert await taken(scheduler.submit(prompt_of(3), 6)) == greedy(prompt_of(3), 6)

    wait(run())


def test_a_rebuilt_program_goes_on_with_new_answers() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        async with await load(device) as program, Scheduler(program) as scheduler:
            answer = scheduler.submit(prompt_of(3), 12)
            begun = [await anext(answer)]
            await program.recover()
            # Its tokens are computed again, and then it goes on.
            assert begun + await taken(answer) == greedy(prompt_of(3), 12)
            assert await taken(scheduler.submit(prompt_of(5), 4)) == greedy(prompt_of(5), 4)

    wait(run())


def test_a_lost_device_ends_all_answers() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(device)
        async with Scheduler(program) as scheduler:
            answer = scheduler.submit(prompt_of(3), 20)
            await anext(answer)
            device.inject(DeviceLostError, method="run")
            with pytest.raises(DeviceLostError):
                await taken(answer)
            await program.recover(SimulatedDevice())
            assert await taken(scheduler.submit(prompt_of(3), 6)) == greedy(prompt_of(3), 6)

    wait(run())


def test_closing_frees_the_caches_and_ends_all_answers() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        async with await load(device) as program:
            before = device.counts()["buffers"]
            held = program.stats.buffer_bytes
            scheduler = Scheduler(program)
            answers = [scheduler.submit(prompt_of(3), 20), scheduler.submit(prompt_of(9), 20)]
            await anext(answers[0])
            # Keys and values of eight slots.
            caches = 2 * 8 * CONTEXT * 4 * 4
            assert program.stats.buffer_bytes > held + caches
            scheduler.close()
            scheduler.close()
            for answer in answers:
                with pytest.raises(ClosedError):
                    await taken(answer)
            with pytest.raises(ClosedError):
                scheduler.submit([1], 1)
            for _ in range(20):
                await asyncio.sleep(0)
            assert program.stats.buffer_bytes == held
            assert device.counts()["buffers"] == before
            assert await alone(program, prompt_of(3), 5) == greedy(prompt_of(3), 5)

    wait(run())


def test_closing_the_program_ends_all_answers() -> None:
    async def run() -> None:
        program = await load(SimulatedDevice())
        scheduler = Scheduler(program)
        answer = scheduler.submit(prompt_of(3), 20)
        await anext(answer)
        program.close()
        with pytest.raises(ClosedError):
            await taken(answer)
        with pytest.raises(ClosedError):
            scheduler.submit([1], 1)

    wait(run())


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ({"at": "computed"}, "where it writes is computed"),
        ({"mask": True}, "its mask says which positions"),
        ({"count": True}, "uses state in a way"),
        ({"rows": VOCABULARY - 1}, "the embedding has 11"),
        ({"grows": True}, "depends on the position"),
        ({"places": CONTEXT}, "depends on the position"),
    ],
    ids=str,
)
def test_programs_that_cannot_are_refused_with_the_reason(kind: dict[str, Any], why: str) -> None:
    async def run() -> None:
        async with await webpte.load(small_llm(**kind), device="numpy") as program:
            scheduler = Scheduler(program)
            with pytest.raises(UnsupportedError, match=why):
                await scheduler.prepare()
            with pytest.raises(UnsupportedError, match=why):
                await taken(scheduler.submit([1, 2], 5))

    wait(run())


@pytest.mark.parametrize("wrong", [{"slots": 0}, {"max_context": 0}, {"chunk": 0}], ids=str)
def test_sizes_must_be_positive(wrong: dict[str, Any]) -> None:
    async def run() -> None:
        async with await load() as program:
            with pytest.raises(InputError, match="must be 1 or more"):
                Scheduler(program, **wrong)

    wait(run())


@pytest.mark.parametrize("device", ["numpy", "simulated"])
def test_prompts_that_begin_alike_share_it(device: str) -> None:
    """Rows of the beginning are copied from the slot of an answer that goes on, or has ended."""

    async def run() -> None:
        program = await load(SimulatedDevice() if device == "simulated" else device)
        async with program, Scheduler(program, slots=3) as scheduler:
            begin = prompt_of(20)
            first = scheduler.submit(begin, 10)
            await anext(first)
            others = [scheduler.submit([*begin, n, 5], 6) for n in (1, 2)]
            found = await asyncio.gather(*map(taken, others))
            assert found == [greedy([*begin, n, 5], 6) for n in (1, 2)]
            assert await taken(first) == greedy(begin, 10)[1:]
            assert scheduler.stats.shared_tokens == 40
            assert [one.stats.reused_tokens for one in others] == [20, 20]

    wait(run())
