"""When steps may run before the host has seen what they go on from, and when not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webpte
from support.conversations import tokens_of
from support.graphs import wait
from support.pte_writer import GraphWriter, write_pte
from webpte.gpu.recording import RecordingDevice
from webpte.llm import Generator

VOCABULARY, CONTEXT, SIZE = 12, 32, 4
RNG = np.random.default_rng(0)


def model(
    *, rows: int = VOCABULARY, at: str = "given", mask: bool = False, count: bool = False
) -> bytes:
    """Looks tokens up, adds them to a cache, attends to it, and multiplies: logits.

    rows   of the table that tokens are looked up in
    at     where in the cache: "given", "computed" or "fixed"
    mask   says which places of the cache count
    count  something else is kept from call to call, too
    """
    g = GraphWriter()
    tokens, input_pos = g.tensor((1, 8), "int64"), g.tensor((1,), "int64")
    given = place = g.symint(0)
    g.op("et_vk.select_as_symint.default", input_pos, g.int(0), g.int(0), given)
    if at == "computed":
        place = g.symint(0)
        g.op("floordiv", given, g.int(2), place)
    elif at == "fixed":
        place = g.int(0)

    def constant(*dims: int) -> int:
        return g.tensor(dims, constant=RNG.normal(size=dims).astype(np.float32))

    dims = (1, 8, 1, SIZE)
    table, caches = constant(rows, SIZE), [constant(1, CONTEXT, 1, SIZE) for _ in range(2)]
    found = g.op("aten.embedding.default", table, tokens, g.tensor((1, 8, SIZE)))
    heads = g.op("aten.view_copy.default", found, g.int_list([1, -1, 1, SIZE]), g.tensor(dims))
    for cache in caches:
        g.op("update_cache.default", heads, cache, place, g.tensor(dims))
    rest = [constant(8, CONTEXT) if mask else g.null(), g.int(0), g.bool_(not mask), g.null()]
    out = g.op("custom_sdpa.default", heads, *caches, place, *rest, g.tensor(dims))
    flat = g.op("aten.view_copy.default", out, g.int_list([1, -1, SIZE]), g.tensor((1, 8, SIZE)))
    if count:
        total = constant(1, 8, SIZE)
        g.op("aten.add.Tensor", total, total, g.int(1), total)
    weight = g.prepack(constant(VOCABULARY, SIZE))
    shape = g.tensor((1, 8, VOCABULARY))
    logits = g.op("aten.linear.default", flat, weight, g.null(), shape)
    g.inputs(tokens, input_pos)
    g.outputs(logits)
    g.host(tokens, dynamic=True)
    g.host(logits, dynamic=True)
    return write_pte(g)


async def answer(data: bytes, **options: Any) -> tuple[list[int], str | None]:
    program = await webpte.load(data, device=RecordingDevice())
    generation = Generator(program).generate([3, 1, 4], 12, **options)
    return await tokens_of(generation), generation.stats.step_by_step


def test_a_cache_that_follows_the_position_is_safe() -> None:
    async def run() -> None:
        tokens, reason = await answer(model())
        assert reason is None
        assert len(tokens) == 12

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
        _, told = await answer(model(**wrong))
        assert told is not None
        assert reason in told

    wait(run())


def test_a_mask_may_look_at_the_whole_cache() -> None:
    async def run() -> None:
        program = await webpte.load(model(mask=True), device=RecordingDevice())
        assert not program.decoder("forward").follows_position

    wait(run())


def test_tokens_are_the_same_in_both_ways() -> None:
    async def run() -> None:
        data = model()
        for options in ({}, {"temperature": 1.0, "seed": 5}):
            ahead, _ = await answer(data, **options)
            one_by_one, reason = await answer(data, steps_ahead=1, **options)
            assert ahead == one_by_one
            assert reason == "steps_ahead is 1"

    wait(run())


def test_without_a_known_context_a_penalty_is_the_hosts() -> None:
    async def run() -> None:
        tokens, reason = await answer(model(), repetition_penalty=1.5)
        assert len(tokens) == 12
        assert reason is not None
        assert "get_max_context_len" in reason

    wait(run())
