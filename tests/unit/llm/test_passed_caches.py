"""Programs that take and give back their caches, and several tokens in each call."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.llm.seeing_layouts import CONTEXT, WIDTH, WORDS, next_token, step
from support.page.conversations import tokens_of
from support.write.pte_writer import write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.llm import Generator
from webpte.llm.generation import ignore_stops

TABLE = np.random.default_rng(7).standard_normal((WORDS, WIDTH)).astype(np.float32)
AT_ONCE = 5
HOW: tuple[dict[str, Any], ...] = (
    {},
    {"temperature": 0.9, "top_p": 0.9},
    {"temperature": 0.9, "top_k": 5},
    {"repetition_penalty": 1.3},  # last: its rows are counted
)


def expected(tokens: Sequence[int], count: int) -> list[int]:
    rows = [*tokens]
    for _ in range(count):
        rows.append(next_token(TABLE[rows]))
    return rows[len(tokens) :]


async def answer(generator: Generator, tokens: Sequence[int], count: int) -> list[int]:
    found = generator.generate(tokens, count)
    ignore_stops(found)
    return await tokens_of(found)


async def opened(device: str) -> webpte.Program:
    on: Any = SimulatedDevice() if device == "simulated" else device
    return await webpte.load(write_pte(step(AT_ONCE, TABLE)), device=on)


@pytest.mark.parametrize("device", ["numpy", "simulated"])
def test_calls_end_with_the_caches(device: str) -> None:
    """A call takes five tokens, also at the end of the caches, where fewer have room."""

    async def run() -> None:
        async with await opened(device) as program:
            generator = Generator(program)
            assert (generator.max_chunk, generator.max_context) == (AT_ONCE, CONTEXT)
            text = [7 * i % 290 + 3 for i in range(CONTEXT)]
            for size in (57, 62, 64, 60, 3):
                count = min(CONTEXT - size + 1, 4)
                # the second time only the last token is new
                for _ in range(2):
                    assert await answer(generator, text[:size], count) == expected(
                        text[:size], count
                    )
            edited = [*text[:59], 5, 6, 8]
            assert await answer(generator, edited, 20) == expected(edited, 3)

    wait(run())


@pytest.mark.parametrize("half", [False, True])
def test_tokens_are_sampled_on_the_gpu(monkeypatch: pytest.MonkeyPatch, half: bool) -> None:
    """Nothing but tokens is read back; a penalty needs the host, and reads a row a token."""
    features = ("shader-f16",) if half else ()
    device, read, prompt = SimulatedDevice(features=features), list[int](), range(3, 10)
    file = write_pte(step(AT_ONCE, TABLE))

    async def tokens(generator: Generator, **how: Any) -> list[int]:
        found = generator.generate(prompt, 6, seed=3, **how)
        ignore_stops(found)
        return await tokens_of(found)

    async def run() -> None:
        async with await webpte.load(file, device="numpy") as program:
            on_host = Generator(program)
            wanted = [await tokens(on_host, **how) for how in HOW]
        async with await webpte.load(file, device=device) as program:
            reading = device.read

            def counted(buffer: int, size: int) -> Awaitable[bytes]:
                read.append(size)
                return reading(buffer, size)

            monkeypatch.setattr(device, "read", counted)
            generator = Generator(program)
            for how, expects in zip(HOW, wanted, strict=True):
                assert await tokens(generator, **how) == expects
                assert read == [4 * WORDS] * (6 if "repetition_penalty" in how else 0)

    wait(run())


def test_tokens_have_probabilities_and_memory_is_freed() -> None:
    device = SimulatedDevice()

    async def run() -> None:
        async with await webpte.load(write_pte(step(AT_ONCE, TABLE)), device=device) as program:
            generator, buffers = Generator(program), list[int]()
            for _ in range(3):
                found = generator.generate(range(3, 10), 4, logprobs=True)
                ignore_stops(found)
                assert await tokens_of(found) == expected(range(3, 10), 4)
                assert [one.token for one in found.logprobs] == expected(range(3, 10), 4)
                buffers.append(program.stats.buffers)
            assert buffers[1] == buffers[2]

    wait(run())
