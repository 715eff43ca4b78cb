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


def test_only_the_last_row_of_logits_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    device, read = SimulatedDevice(), list[int]()

    async def run() -> None:
        async with await webpte.load(write_pte(step(AT_ONCE, TABLE)), device=device) as program:
            reading = device.read

            def counted(buffer: int, size: int) -> Awaitable[bytes]:
                read.append(size)
                return reading(buffer, size)

            monkeypatch.setattr(device, "read", counted)
            assert await answer(Generator(program), range(3, 10), 4) == expected(range(3, 10), 4)

    wait(run())
    assert read == [4 * WORDS] * len(read)
    assert len(read) == 2 + 3  # two calls for the prompt
