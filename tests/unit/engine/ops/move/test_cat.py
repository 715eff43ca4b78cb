"""Concatenation: references, the number of dispatches, and refused arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.live_cases import LiveCase, lowered, random_bits
from support.cases.move.cat_cases import joined, parts
from support.graphs.graphs import build_graph, load, make_planner, wait
from support.write.pte_writer import GraphWriter
from webpte.errors import GraphError

CAT = "aten.cat.default"


@pytest.mark.parametrize(
    ("shapes", "dtype", "dispatches", "unit"),
    [
        ([(3, 4)] * 4, "float32", 1, "vec4<u32>"),
        ([(3, 4)] * 5, "float32", 2, "vec4<u32>"),
        ([(3, 4), (3, 5)], "float32", 1, "u32"),
        ([(3, 16)] * 2, "int8", 1, "vec4<u32>"),
        ([(3, 4), (3, 8)], "int8", 1, "u32"),
        ([(3, 4), (3, 0)] * 4, "float32", 1, "vec4<u32>"),  # empty inputs do not count
    ],
)
def test_four_inputs_to_a_dispatch(
    shapes: list[tuple[int, ...]], dtype: str, dispatches: int, unit: str
) -> None:
    records = lowered(LiveCase(CAT, [(parts(dtype, *shapes), 1)], joined))[0].dispatches()
    assert len(records) == dispatches
    assert {dict(record.types)["UNIT"] for record in records} == {unit}


def test_one_tensor_twice() -> None:
    async def run() -> Any:
        g = GraphWriter()
        x, out = g.tensor((2, 3)), g.tensor((2, 6))
        g.op(CAT, g.value_list([x, x]), g.int(1), out)
        g.inputs(x)
        g.outputs(out)
        async with await load(g) as program:
            return await program.forward(np.arange(6, dtype=np.float32).reshape(2, 3))

    (result,) = wait(run())
    assert result.tolist() == [[0, 1, 2, 0, 1, 2], [3, 4, 5, 3, 4, 5]]


@pytest.mark.parametrize(
    ("shapes", "dim", "message"),
    [
        (((2, 3), (3, 3)), 1, "does not match"),
        (((2, 3), (2, 3, 1)), 1, "does not match"),
        (((2, 3), (2, 3)), 2, "dim 2 is outside"),
        (((), ()), 0, "rank 0"),
    ],
)
def test_refuses(shapes: tuple[tuple[int, ...], ...], dim: int, message: str) -> None:
    arrays = [random_bits(shape) for shape in shapes]
    case = LiveCase(CAT, [(arrays, dim)], lambda *_: np.zeros((1,), np.uint32))
    with pytest.raises(GraphError, match=message):
        lowered(case)


def test_refuses_nothing() -> None:
    g = GraphWriter()
    out = g.tensor((1,))
    g.op(CAT, g.value_list([]), g.int(0), out)
    g.outputs(out)
    planner, _ = make_planner(build_graph(g))
    with pytest.raises(GraphError, match="nothing to concatenate"):
        planner.lower_all()
