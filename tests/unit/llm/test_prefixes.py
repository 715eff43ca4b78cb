"""Whole conversations: the prefix that is reused from the cache, and wrong arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.page.conversations import greedy, tokens_of
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import InputError
from webpte.llm import Generator

PROMPT, TURN = [5, 9, 33, 7], [81, 402]


async def on_device(path: Path) -> Generator:
    return Generator(await webpte.load(path, device=SimulatedDevice(), strict=True))


def test_a_conversation_costs_its_new_tokens(q4: Path) -> None:
    async def run() -> None:
        generator = await on_device(q4)
        first = await tokens_of(generator.generate(PROMPT, 6))
        whole = [*PROMPT, *first, *TURN]
        answer = generator.generate(whole, 6)
        second = await tokens_of(answer)
        assert second == await greedy(q4, whole, 6)
        assert answer.stats.reused_tokens == len(PROMPT) + len(first)
        assert answer.stats.prefill_tokens == 1 + len(TURN), "the last token was pending"
        # Another end of the second turn: back to where they part.
        other = [*PROMPT, *first, TURN[0], 17, 18]
        answer = generator.generate(other, 6)
        assert await tokens_of(answer) == await greedy(q4, other, 6)
        assert answer.stats.prefill_tokens == 2
        # The same once more: only the last token is computed again.
        answer = generator.generate(other, 6)
        assert await tokens_of(answer) == await greedy(q4, other, 6)
        assert answer.stats.prefill_tokens == 1
        # Nothing in common.
        answer = generator.generate(TURN, 3)
        assert await tokens_of(answer) == await greedy(q4, TURN, 3)
        assert (answer.stats.reused_tokens, answer.stats.prefill_tokens) == (0, 2)

    wait(run())


def test_a_conversation_that_is_too_long_leaves_the_context(q4: Path) -> None:
    async def run() -> None:
        generator = await on_device(q4)
        first = await tokens_of(generator.generate(PROMPT, 6))
        with pytest.raises(InputError, match="129 tokens is over the 128"):
            await tokens_of(generator.generate([1] * 129, 1))
        assert generator.context == (*PROMPT, *first)
        with pytest.raises(InputError, match="steps_ahead must be 1 or more"):
            generator.generate(PROMPT, 1, steps_ahead=0)

    wait(run())


def test_a_conversation_that_cannot_begin_ends_no_answer(q4: Path) -> None:
    async def run() -> None:
        generator = await on_device(q4)
        answer = generator.generate(PROMPT, 9)
        found = [await anext(answer) for _ in range(3)]
        with pytest.raises(InputError, match="over the 128"):
            await anext(generator.generate([1] * 129, 1))
        with pytest.raises(InputError, match="at least one token"):
            await anext(generator.generate([], 1))
        assert generator.context == (*PROMPT, *found)
        assert found + await tokens_of(answer) == await greedy(q4, PROMPT, 9)

    wait(run())


@pytest.mark.parametrize("wrong", [-1, 512, 5.9, 2**70, "a", None, [1], 3.0])
def test_what_is_no_token_is_told_before_anything_is_fed(q4: Path, wrong: Any) -> None:
    async def run() -> None:
        generator = await on_device(q4)
        first = await tokens_of(generator.generate(PROMPT, 2))
        message = r"\(place 1\) is not a token of llama_tiny_q4.*from 0 to 511"
        for ask in (generator.generate, generator.continue_):
            with pytest.raises(InputError, match=message):
                ask([5, wrong], 3)
        with pytest.raises(InputError, match=message):
            await generator.prefill([5, wrong])
        assert generator.context == (*PROMPT, *first)
        assert await tokens_of(generator.continue_(list(np.array(TURN)), 2))

    wait(run())
