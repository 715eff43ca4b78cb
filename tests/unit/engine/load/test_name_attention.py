"""Windows and soft caps become arguments of attention: the same results, in fewer calls."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.harness import extent
from support.llm.small_decoders import program_of
from support.page.conversations import tokens_of
from support.write.pte_writer import GraphWriter, write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.load.visible_keys import RelativeKeys
from webpte.llm import Generator
from webpte.llm.decode.decoder import decoder_of

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


@pytest.mark.parametrize("family", extent.share(FAMILIES))
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
    causal, window = RelativeKeys(0, math.inf), RelativeKeys(-math.inf, 7)
    assert causal.and_(window) == RelativeKeys(0, 7)
    assert causal.inverse == RelativeKeys(-math.inf, -1)
    hidden = causal.inverse.or_(window.inverse)
    assert hidden is not None
    assert hidden.inverse == RelativeKeys(0, 7)
    assert RelativeKeys(0, 7).inverse.and_(causal) is None


TOKENS, KEYS = 5, 16


def masked(
    low: int = 0,
    window: int = 6,
    hidden: float = -math.inf,
    at: int = 0,
    alpha: int = 1,
    keys: int = KEYS,
) -> bytes:
    """Write attention behind a mask that is computed from positions, usual or not."""
    g = GraphWriter()
    fresh = [g.tensor((1, TOKENS, heads, 8)) for heads in (4, 2, 2)]
    start = g.tensor((1,), "int32")
    position = g.symint()
    g.op("et_vk.select_as_symint.default", start, g.int(0), g.int(0), position)

    def count(end: int) -> int:
        more = (g.null(), g.null(), g.null(), g.bool_(False))
        ends = (g.int(at), g.int(end + at), g.int(1))
        return g.op("aten.arange.start_step", *ends, *more, g.tensor((end,), "int32"))

    def spread(value: int, dim: int, *dims: int) -> int:
        return g.op("aten.unsqueeze_copy.default", value, g.int(dim), g.tensor(dims, "int32"))

    rows = g.op("aten.add.Tensor", start, count(TOKENS), g.int(1), g.tensor((TOKENS,), "int32"))
    pair = spread(rows, 1, TOKENS, 1), spread(count(keys), 0, 1, keys)
    dims = (TOKENS, keys)
    ago = g.op("aten.sub.Tensor", *pair, g.int(alpha), g.tensor(dims, "int32"))
    early = g.op("aten.lt.Scalar", ago, g.int(low), g.tensor(dims, "bool"))
    late = g.op("aten.ge.Scalar", ago, g.int(window), g.tensor(dims, "bool"))
    either = g.op("aten.bitwise_or.Tensor", early, late, g.tensor(dims, "bool"))
    numbers = [g.tensor((), constant=np.array(x, np.float32)) for x in (hidden, 0.0)]
    mask = g.op("aten.where.self", either, *numbers, g.tensor(dims))
    caches = [
        g.tensor((1, KEYS, 2, 8), constant=np.zeros((1, KEYS, 2, 8), np.float32)) for _ in "kv"
    ]
    rest = (position, g.int(1), mask, g.int(0), g.bool_(False), g.null())
    out = g.tensor((1, TOKENS, 4, 8))
    g.op(SDPA, *fresh, *caches, *rest, out)
    g.inputs(*fresh, start)
    g.outputs(out)
    return write_pte(g)


@pytest.mark.parametrize(
    ("changes", "is_named"),
    [
        ({}, True),
        ({"window": 1}, True),
        ({"window": 100}, True),
        ({"low": 1}, False),  # the own key is hidden
        ({"low": -1}, False),  # the next key is seen
        ({"hidden": -3.0}, False),  # keys are only less likely
        ({"alpha": 2}, False),
        ({"at": 1}, False),  # counts from 1
    ],
    ids=str,
)
def test_masks_that_are_windows_and_others(changes: dict[str, float], is_named: bool) -> None:
    async def run() -> None:
        file = masked(**changes)  # type: ignore[arg-type]
        random = np.random.default_rng(3)
        async with (
            await webpte.load(file, device="numpy") as reference,
            await webpte.load(file, device=SimulatedDevice()) as program,
        ):
            counts = await calls_of(program)
            assert bool(counts["aten.where.self"]) is not is_named
            for start in (0, 4, 11):
                fresh = [random.standard_normal((1, TOKENS, heads, 8)) for heads in (4, 2, 2)]
                given = [x.astype(np.float32) for x in fresh]
                (wanted,) = await reference.forward(*given, np.array([start], np.int32))
                (found,) = await program.forward(*given, np.array([start], np.int32))
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)

    wait(run())
