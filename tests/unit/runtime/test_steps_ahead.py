"""When steps may run before the host has seen what they go on from, and when not."""

from __future__ import annotations

from typing import Any

import pytest

import webpte
from support.conversations import tokens_of
from support.graphs import wait
from support.small_llm import VOCABULARY, logits_of, small_llm
from webpte.gpu.recording import RecordingDevice
from webpte.llm import Generator


async def answer(data: bytes, **options: Any) -> tuple[list[int], str | None]:
    program = await webpte.load(data, device=RecordingDevice())
    generation = Generator(program).generate([3, 1, 4], 12, **options)
    return await tokens_of(generation), generation.stats.step_by_step


def test_a_cache_that_follows_the_position_is_safe() -> None:
    async def run() -> None:
        tokens, reason = await answer(small_llm())
        assert reason is None
        context = [3, 1, 4]
        for _ in range(12):
            context.append(int(logits_of(context)[-1].argmax()))
        assert tokens == context[3:]

    wait(run())


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"at": "computed"}, "may be where earlier tokens are"),
        ({"at": "fixed"}, "may be where earlier tokens are"),
        ({"count": True}, "not known to follow the position"),
        ({"rows": VOCABULARY - 1}, "12 tokens can be chosen, but it has 11"),
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
        program = await webpte.load(small_llm(mask=True), device=RecordingDevice())
        assert not program.decoder("forward").follows_position

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


def test_without_a_known_context_a_penalty_is_the_hosts() -> None:
    async def run() -> None:
        tokens, reason = await answer(small_llm(), repetition_penalty=1.5)
        assert len(tokens) == 12
        assert reason is not None
        assert "get_max_context_len" in reason

    wait(run())
