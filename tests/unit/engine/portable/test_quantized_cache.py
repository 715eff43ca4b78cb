"""Attention to int8 caches outside of delegates: caches, scales and zero points stay on the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webpte
from support.cases.attention.attention_programs import softmax_attention
from support.cases.attention.quantized_attention_cases import OP, Rows, random_rows
from support.devices.recorded import runs
from support.graphs.graphs import read_graph, wait
from support.graphs.offloading import places
from support.graphs.stitching import LOGCUMSUMEXP, expect, recording, unary
from support.write.pte_writer import GraphWriter, Host, MethodWriter, write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.graph.graph import Graph
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.llm.decode.rollback_safety import unsafe_state

POSITIONS, SIZE = 300, 8
UPDATE, ATTENTION = "llama::update_cache.out", "llama::custom_quantized_sdpa.out"
TYPES = ("int8", "int8", "float32")


def shapes(tokens: int, heads: int) -> list[tuple[int, ...]]:
    """Return the dims of rows, of their zero points and of their scales."""
    return [(1, tokens, heads, size) for size in (SIZE, 1, 1)]


def writing(
    heads: int = 4, key_heads: int = 4, *, mask: str | None = None, on_host: bool = False
) -> MethodWriter:
    """Write a step as ExecuTorch's quantized cache has it: six updates, then attention."""
    m = MethodWriter()
    rows = [
        [m.tensor(dims, dtype) for dims, dtype in zip(shapes(1, count), TYPES, strict=True)]
        for count in (heads, key_heads, key_heads)
    ]
    at = m.tensor((1, 1), "int64")
    hidden = None if mask is None else m.tensor((1, POSITIONS), mask)
    m.inputs(*(tensor for three in rows for tensor in three), at, *([hidden] if hidden else []))
    start = m.value(0)
    m.kernel("aten::_local_scalar_dense", at, start)
    held: list[list[Host]] = []
    for new in rows[1:]:
        held.append([])
        for tensor, dims, dtype in zip(new, shapes(POSITIONS, key_heads), TYPES, strict=True):
            cache = m.tensor(dims, dtype, data=np.ones(dims, dtype), mutable=True)
            dummy = m.tensor((1,), dtype)
            m.kernel(UPDATE, tensor, cache, start, dummy, dummy)
            held[-1].append(cache)
    if on_host:
        scales = m.tensor(shapes(POSITIONS, key_heads)[2])
        m.kernel(LOGCUMSUMEXP, held[0][2], 3, scales, scales)
        held[0][2] = scales
    (q, qz, qs), (k, kz, ks), (v, vz, vs) = rows[0], *held
    out = m.tensor((1, 1, heads, SIZE))
    how = (start, hidden, 0.0, mask is None, None, qz, qs, kz, ks, vz, vs, False)
    m.kernel(ATTENTION, q, k, v, *how, out, out)
    m.outputs(unary(m, "aten.neg.default", out, (1, 1, heads, SIZE)))
    return m


def step(position: int, heads: int = 4, key_heads: int = 4) -> list[np.ndarray]:
    rng = np.random.default_rng(position)
    rows = [random_rows(rng, 1, 1, count, SIZE) for count in (heads, key_heads, key_heads)]
    return [*(array for three in rows for array in three), np.array([[position]])]


def resident_graph(**how: Any) -> Graph:
    """Return the graph of a step in a delegate: caches are its state."""
    g = GraphWriter()
    source, start = g.tensor((1,), "int32"), g.symint()
    g.op("et_vk.select_as_symint.default", source, g.int(0), g.int(0), start)
    three = list(zip(shapes(1, 4), TYPES, strict=True))
    rows = [g.tensor(dims, dtype) for dims, dtype in three * 3]
    held = []
    for new, (dims, dtype) in zip(rows[3:], three * 2, strict=True):
        held.append(g.tensor((1, 4, *dims[2:]), dtype, constant=np.ones((1, 4, *dims[2:]), dtype)))
        g.op("update_cache.default", new, held[-1], start, g.tensor((1,)))
    mask = g.tensor((1, 4)) if how.get("mask") else g.null()
    rest = (start, mask, g.double(0.0), g.bool_(True), g.null(), *rows[1:3], *held[1:3], *held[4:])
    flag, out = g.bool_(how.get("heads_before", False)), g.tensor(shapes(1, 4)[0])
    g.outputs(g.op(OP, rows[0], held[0], held[3], *rest, flag, out))
    g.inputs(*rows, source, *([mask] if how.get("mask") else []))
    return read_graph(write_pte(g))


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({}, None),
        ({"mask": True}, "its mask says which positions"),
        ({"heads_before": True}, "heads before positions"),
    ],
)
def test_steps_can_be_discarded(how: dict[str, bool], reason: str | None) -> None:
    graph = resident_graph(**how)
    assert len(Dataflow.of(graph).state) == 6
    found = unsafe_state(graph)
    assert found is None if reason is None else reason in (found or "")


def test_a_talk_stays_on_the_gpu() -> None:
    async def run() -> None:
        program = await expect(writing(), *map(step, (0, 1, 2, 1, 4)))
        found = places(program)
        assert (found[UPDATE], found[ATTENTION]) == ("gpu", "gpu")
        kernels = [
            kernel.name
            for node in program.graph().nodes
            if "quantized_sdpa" in node.op
            for kernel in node.kernels
        ]
        assert kernels[:3] == ["attention_dequantize"] * 3
        assert kernels[3] == "attention_flash_split"
        zeros = POSITIONS * 4  # bytes of the smallest caches
        assert all(len(done["payload"]) < zeros for done in runs(recording(program)))

    wait(run())


@pytest.mark.parametrize(("heads", "key_heads"), [(1, 1), (6, 3), (8, 2)])
def test_zero_points_that_are_not_whole_words(heads: int, key_heads: int) -> None:
    async def run() -> None:
        steps = [step(position, heads, key_heads) for position in (0, 1, 2, 1, 299)]
        program = await expect(writing(heads, key_heads), *steps)
        assert {row.where for row in program.report if row.op in (UPDATE, ATTENTION)} == {"gpu"}
        updates = [node for node in program.graph().nodes if "update_cache" in node.op]
        assert len(updates) == 6
        assert all(node.changes for node in updates), "in place"

    wait(run())


@pytest.mark.parametrize("kind", ["float32", "bool"])
def test_masks_over_the_cache(kind: str) -> None:
    async def run() -> None:
        steps = []
        for position in (0, 1, 2):
            seen = np.arange(POSITIONS)[None] <= position
            mask = seen if kind == "bool" else np.where(seen, 0, -np.inf).astype(np.float32)
            steps.append([*step(position), mask])
        program = await expect(writing(mask=kind), *steps)
        assert places(program)[ATTENTION] == "gpu"

    wait(run())


def test_results_are_those_of_attention_to_all_steps() -> None:
    """Four heads of queries and keys, of one token: softmax over the rows that were written."""

    async def run() -> None:
        program = await webpte.load(write_pte(writing()), device=SimulatedDevice())
        keys, values = [], []
        for position in range(4):
            inputs = step(position)
            q, k, v = (Rows(*inputs[i : i + 3]).floats.swapaxes(1, 2) for i in (0, 3, 6))
            keys.append(k)
            values.append(v)
            seen = np.zeros((1, 4, 1, position + 1), bool)
            k, v = (np.concatenate(rows, axis=2) for rows in (keys, values))
            want = softmax_attention(q, k, v, SIZE**-0.5, seen, np.zeros(seen.shape))
            (got,) = await program.forward(*inputs)
            np.testing.assert_allclose(got, -want.swapaxes(1, 2), rtol=1e-5, atol=1e-6)

    wait(run())


def test_scales_that_the_host_computes() -> None:
    async def run() -> None:
        data = write_pte(writing(on_host=True))
        expected = await webpte.load(data, device="numpy")
        program = await webpte.load(data, device=SimulatedDevice())
        assert places(program)[ATTENTION] == "gpu"
        for inputs in map(step, (0, 1, 2, 1)):
            (got,), (want,) = await program.forward(*inputs), await expected.forward(*inputs)
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)

    wait(run())


def test_its_work_is_counted_up_to_the_position() -> None:
    async def run() -> None:
        program = await webpte.load(write_pte(writing(8, 2)), device=SimulatedDevice())
        trace = await program.trace("forward", *step(9, 8, 2))
        (row,) = (row for row in trace.by("op") if "quantized_sdpa" in row.name)
        assert row.flops == 4 * (8 * SIZE) * 10
        given = 8 * (SIZE + 1 + 4) + 2 * 2 * 10 * (SIZE + 1 + 4)  # queries; keys and values so far
        assert row.nbytes == given + 8 * SIZE * 4

    wait(run())


@pytest.mark.parametrize("device", ["numpy", "simulated"])
def test_a_position_outside_of_the_cache_changes_nothing(device: str) -> None:
    async def run() -> None:
        where = SimulatedDevice() if device == "simulated" else device
        program = await webpte.load(write_pte(writing()), device=where)
        (before,) = await program.forward(*step(2))
        with pytest.raises(webpte.WebpteError, match="position"):
            await program.forward(*step(POSITIONS))
        np.testing.assert_array_equal(before, (await program.forward(*step(2)))[0])

    wait(run())
