"""Windows and soft caps become arguments of attention: the same results, in fewer calls."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.llm.small_decoders import program_of
from support.page.conversations import tokens_of
from webpte.gpu.simulated.device import SimulatedDevice
from webpte.llm import Generator
from webpte.runtime.load.visible_keys import Ago
from webpte.runtime.program import decoder_of

FAMILIES = ["gemma2", "gemma3", "mistral"]
SDPA = "sdpa_with_kv_cache.default"


async def calls_of(program: webpte.Program) -> Counter[str]:
    (graph,) = [one for one in program._build.stages["forward"].planned.graphs if one is not None]
    return Counter(call.name for call in graph.calls)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_results_stay(family: str) -> None:
    """A prompt longer than the window of 8 keys, another part of it, and single tokens."""

    async def run() -> None:
        file = program_of(family)
        steps = [(13, 0), (5, 13), (1, 18), (1, 19), (9, 3), (1, 12)]
        tokens = np.random.default_rng(5).integers(0, 99, 40)
        async with (
            await webpte.load(file, device="numpy") as reference,
            await webpte.load(file, device=SimulatedDevice()) as program,
        ):
            counts = await calls_of(program)
            assert counts[SDPA] == 2
            assert not counts["aten.where.self"], "no mask is computed"
            assert not counts["update_cache.default"]
            for count, start in steps:
                given = tokens[None, start : start + count], np.array([start])
                (wanted,) = await reference.forward(*given)
                (found,) = await program.forward(*given)
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)

    wait(run())


@pytest.mark.parametrize("family", FAMILIES)
def test_steps_are_decoded_ahead(family: str) -> None:
    async def run() -> None:
        async with await webpte.load(program_of(family), device=SimulatedDevice()) as program:
            assert decoder_of(program, "forward").follows_position
            answer = Generator(program).generate([5, 9, 33, 7], 30)
            ahead = await tokens_of(answer)
            assert answer.stats.step_by_step is None
            one_by_one = Generator(program).generate([5, 9, 33, 7], 30, steps_ahead=1)
            assert await tokens_of(one_by_one) == ahead

    wait(run())


def test_ranges_of_keys() -> None:
    causal, window = Ago(0, math.inf), Ago(-math.inf, 7)
    assert causal.and_(window) == Ago(0, 7)
    assert causal.inverse == Ago(-math.inf, -1)
    hidden = causal.inverse.or_(window.inverse)
    assert hidden is not None
    assert hidden.inverse == Ago(0, 7)
    assert Ago(0, 7).inverse.and_(causal) is None
