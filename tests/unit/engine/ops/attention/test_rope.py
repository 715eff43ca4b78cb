"""Rotary embeddings: the references against complex numbers in float64, lowering, errors."""

from __future__ import annotations

import numpy as np
import pytest

import webpte
from support.cases.attention.rope_cases import COMPLEX, PAIRS, ROPE_HF, RopeCase
from support.cases.cases import Array
from support.graphs.graphs import make_delegate, read_graph, run_once, wait
from support.write.pte_writer import GraphWriter
from webpte.engine.run.request import RunRequest
from webpte.errors import ExecutionError, WebpteError


@pytest.mark.parametrize("op", [PAIRS, ROPE_HF])
def test_rotation_keeps_lengths_and_relative_angles(op: str) -> None:
    """Dot products depend only on the distance of the positions."""
    case = RopeCase(op, [(20, 0)], heads=1, key_heads=1, size=8)
    q, k, *rest = case.inputs(0)
    q[:], k[:] = q[:, :1], k[:, :1]

    async def run() -> list[Array]:
        program = await webpte.load(case.program(), device="numpy")
        return list(await program.forward(q, k, *rest))

    rotated_q, rotated_k = (x[0, :, 0].astype(np.float64) for x in wait(run()))
    np.testing.assert_allclose(
        np.linalg.norm(rotated_q, axis=-1), np.linalg.norm(q[0, :, 0], axis=-1), rtol=1e-6
    )
    products = rotated_q @ rotated_k.T
    for distance in range(-5, 6):
        diagonal = np.diagonal(products, distance)
        np.testing.assert_allclose(diagonal, diagonal[0], atol=1e-5)
    assert abs(products[0, 0] - products[0, 7]) > 1e-3


def test_both_tensors_take_one_dispatch_and_a_new_position_lowers_nothing() -> None:
    case = RopeCase(ROPE_HF, [(1, 0), (1, 1), (1, 40)])
    graph = read_graph(case.program())

    async def run() -> None:
        delegate, device = await make_delegate(graph)
        await delegate.run(RunRequest(case.inputs(0)))
        before = delegate.lowerings, len(device.plans)
        for index in (1, 2):
            await delegate.run(RunRequest(case.inputs(index)))
        assert (delegate.lowerings, len(device.plans)) == before
        assert delegate.dispatches == 1

    wait(run())


@pytest.mark.parametrize("position", [-1, 62, 64])
def test_a_position_outside_of_the_tables_is_refused_and_harmless(position: int) -> None:
    case = RopeCase(ROPE_HF, [(3, 0), (3, 61)])

    async def run() -> None:
        program = await webpte.load(case.program(), device="numpy")
        wrong = case.inputs(0)
        wrong[2] = np.array([position], np.int32)
        with pytest.raises(ExecutionError, match=r"3 tokens in tables of 64 positions"):
            await program.forward(*wrong)
        for index in (0, 1):
            case.check(index, await program.forward(*case.inputs(index)))

    wait(run())


def graph_of(
    op: str, *shapes: tuple[int, ...], dtype: str = "float32"
) -> tuple[GraphWriter, list[Array]]:
    g = GraphWriter()
    tensors = [g.tensor(shape, dtype) for shape in shapes]
    g.inputs(*tensors)
    if op == COMPLEX:
        g.outputs(g.op(op, *tensors, g.tensor(shapes[0], dtype)))
    else:
        outs = [g.tensor(shape, dtype) for shape in shapes[:2]]
        position = [g.int(0)] if op == ROPE_HF else []
        g.op(op, *tensors, *position, g.value_list(outs))
        g.outputs(*outs)
    return g, [np.zeros(shape, dtype) for shape in shapes]


Q, K = (1, 5, 4, 8), (1, 5, 2, 8)


@pytest.mark.parametrize(
    ("op", "shapes", "message"),
    [
        (PAIRS, (Q, K, (6, 4), (6, 4)), "tables"),
        (PAIRS, (Q, K, (4, 4), (4, 4)), "tables"),
        (PAIRS, (Q, K, (5, 4, 4), (5, 4, 4)), "tables"),
        (PAIRS, (Q, K, (5, 4), (4, 5)), "cosines"),
        (PAIRS, (Q, K, (4, 5), (4, 5)), "tables"),  # of as many elements
        (PAIRS, (Q, K, (20,), (20,)), "tables"),
        (PAIRS, (Q, (1, 4, 2, 8), (5, 4), (5, 4)), "equal tokens"),
        (PAIRS, ((1, 5, 4, 7), (1, 5, 2, 7), (5, 3), (5, 3)), "even"),
        (PAIRS, (Q, (1, 5, 2, 6), (5, 4), (5, 4)), "equal, even"),
        (PAIRS, (Q[1:], K[1:], (5, 4), (5, 4)), "expected are"),
        (ROPE_HF, (Q, K, (9, 10), (9, 10)), "up to the head size"),
        (ROPE_HF, (Q, K, (9, 5), (9, 5)), "even number"),
        (ROPE_HF, (Q, K, (1, 9, 8), (1, 9, 8)), "tables"),
        (ROPE_HF, (Q, K, (4, 8), (4, 8)), "5 tokens in tables of 4"),
        (COMPLEX, ((1, 5, 8), (6, 8)), r"\[N, C\]"),
        (COMPLEX, ((1, 5, 8), (8, 5)), r"\[N, C\]"),  # of as many elements
        (COMPLEX, ((1, 5, 7), (5, 7)), "even C"),
        (COMPLEX, ((8,), (8,)), "expected are"),
    ],
)
def test_wrong_shapes(op: str, shapes: tuple[tuple[int, ...], ...], message: str) -> None:
    g, arrays = graph_of(op, *shapes)
    with pytest.raises(WebpteError, match=message) as caught:
        wait(run_once(g, *arrays))
    assert op in str(caught.value)


def test_integers_are_refused() -> None:
    g, arrays = graph_of(PAIRS, Q, K, (5, 4), (5, 4), dtype="int32")
    with pytest.raises(WebpteError, match="defined for floats"):
        wait(run_once(g, *arrays))
