"""Adaptive pooling: references and refused arguments."""

from __future__ import annotations

import numpy as np
import pytest

from support.graphs.graphs import build_graph, make_planner, run_once, wait
from support.write.pte_writer import GraphWriter
from webpte.errors import GraphError


@pytest.mark.parametrize(
    ("dims", "sizes", "message"),
    [
        ((2, 3, 4), [1], "cannot be pooled"),
        ((3,), [1, 1], "cannot be pooled"),
        ((2, 3, 4), [1, -1], "cannot be pooled"),
        ((2, 0, 4), [1, 1], "no elements"),
    ],
)
def test_refuses(dims: tuple[int, ...], sizes: list[int], message: str) -> None:
    g = GraphWriter()
    x = g.tensor(dims)
    g.inputs(x)
    out = g.tensor((2, 1, 1))
    g.outputs(g.op("aten._adaptive_avg_pool2d.default", x, g.int_list(sizes), out))
    planner, _ = make_planner(build_graph(g))
    with pytest.raises(GraphError, match=message):
        planner.lower_all()


@pytest.mark.parametrize("size", [4, 6, 9])
def test_windows_are_added_up_in_order(size: int) -> None:
    """Averages of int8 numbers in the middle of two are rounded as PyTorch rounds them."""
    scale, random = np.float32(0.023349272), np.random.default_rng(4)
    x = random.integers(-128, 128, (8, size, size)).astype(np.float32) * scale
    g = GraphWriter()
    given, out = g.tensor(x.shape), g.tensor((8, 2, 2))
    g.inputs(given)
    g.outputs(g.op("aten._adaptive_avg_pool2d.default", given, g.int_list([2, 2]), out))
    (found,) = wait(run_once(g, x))
    for at in np.ndindex(8, 2, 2):
        first = [i * size // 2 for i in at[1:]]
        last = [-(-(i + 1) * size // 2) for i in at[1:]]
        window = x[at[0], first[0] : last[0], first[1] : last[1]].ravel()
        total = np.float32(0)
        for number in window:
            total += number
        assert found[at] == total / np.float32(window.size)
