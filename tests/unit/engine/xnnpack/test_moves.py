"""Nodes of XNNPACK graphs that move elements, and the order in which values are held."""

from __future__ import annotations

import numpy as np
import pytest

from support.graphs.graphs import load, wait
from support.graphs.xnnpack_graphs import binary, computed, graph_of, names_of, unary
from support.write.xnnpack_writer import XnnpackWriter, floats
from webpte.errors import ExecutionError, GraphError

X = floats(3, 5)


@pytest.mark.parametrize(
    ("offsets", "sizes"), [((1, 2), (2, 3)), ((0, 1), (3, 0)), ((1, 0), (0, 5)), ((0, 0), (0, 0))]
)
def test_slices(offsets: tuple[int, int], sizes: tuple[int, int]) -> None:
    """A size of 0 reaches to the end."""
    (a, b), (m, n) = offsets, sizes
    want = X[a : a + m or None if m else None, b : b + n if n else None]
    g = unary("StaticSlice", X.shape, want.shape, num_dims=2, offsets=offsets, sizes=sizes)
    np.testing.assert_array_equal(computed(g, X), want)


def test_paddings_of_both_sides_in_any_order() -> None:
    g = XnnpackWriter()
    turned, out = g.value((4, 2, 3)), g.value((6, 2, 8), argument=1, output=True)
    x = floats(2, 3, 4)
    g.node("StaticTranspose", g.value(x.shape, argument=0), turned, num_dims=3, perm=(2, 0, 1))
    g.node("StaticConstantPad", turned, out, before=(2, 0, 1), after=(0, 0, 4), value=-0.5)
    want = np.pad(x.transpose(2, 0, 1), ((2, 0), (0, 0), (1, 4)), constant_values=-0.5)
    np.testing.assert_array_equal(computed(g, x), want)


@pytest.mark.parametrize("count", [2, 3, 4, 5])
@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_concatenations(count: int, axis: int) -> None:
    g = XnnpackWriter()
    parts = [floats(2, 3, seed=seed) for seed in range(count)]
    want = np.concatenate(parts, axis)
    ids = [g.value((2, 3), argument=place) for place in range(count)]
    made = g.value(want.shape, argument=count, output=True)
    g.node(f"Concatenate{count}", *ids, made, axis=axis)
    np.testing.assert_array_equal(computed(g, *parts), want)


def reshape(shape: tuple[int, ...], out: tuple[int, ...]) -> XnnpackWriter:
    return unary("StaticReshape", (3, 4), out, num_dims=len(shape), shape=shape)


@pytest.mark.parametrize("shape", [(2, 6), (0, 6), (2, 0), (2, 3, 2), (12,)])
def test_views(shape: tuple[int, ...]) -> None:
    x = floats(3, 4)
    want = x.reshape([size or -1 for size in shape])
    np.testing.assert_array_equal(computed(reshape(shape, want.shape), x), want)


@pytest.mark.parametrize(
    ("g", "message"),
    [
        (reshape((0, 0), (2, 6)), "a view as [0, 0] of a value [2, 6]"),
        (reshape((12,), (2, 6)), "a view as [12] of a value [2, 6]"),
        (reshape((6, 2), (2, 6)), "value 1 is [2, 6] in the file, [6, 2] by its node"),
        (unary("StaticTranspose", (2, 3), (3, 2), num_dims=2, perm=(1, 1)), "is no permutation"),
        (unary("StaticTranspose", (2, 3), (3, 2), num_dims=1, perm=(0,)), "is no permutation"),
        (
            unary("StaticTranspose", (2, 3), (2, 3), num_dims=2, perm=(1, 0)),
            "value 1 is [2, 3] in the file, [3, 2] by its node",
        ),
        (
            unary("StaticSlice", (3, 5), (3, 5), num_dims=2, offsets=(1, 0), sizes=(2, 5)),
            "value 1 is [3, 5] in the file, [2, 5] by its node",
        ),
        (
            unary("StaticSlice", (3, 5), (3, 5), num_dims=2, offsets=(-2, 0), sizes=(2, 5)),
            "in the file",  # offsets are not counted from the end
        ),
        (
            unary("StaticSlice", (3, 5), (3, 5), num_dims=1, offsets=(0,), sizes=(2,)),
            "1 offsets and 1 sizes of 2 dims",
        ),
        (
            unary("StaticConstantPad", (3, 5), (4, 5), before=(1,), after=(0,), value=0.0),
            "1 and 1 paddings of 2 dims",
        ),
        (binary("Concatenate2", (2, 3), (2, 3), out=(4, 3), axis=2), "there is no dim 2 of 2"),
        (binary("Concatenate2", (2, 3), (2, 3), out=(4, 3), axis=-3), "there is no dim -1 of 2"),
        (binary("Concatenate2", (2, 3), (3,), out=(4, 3), axis=0), "values of other ranks than 2"),
        (binary("Concatenate2", (2, 3), (2, 3), out=(2, 3), axis=0), "[4, 3] by its node"),
    ],
)
def test_moves_that_are_refused(g: XnnpackWriter, message: str) -> None:
    with pytest.raises(GraphError) as raised:
        graph_of(g)
    assert message in str(raised.value)


def test_live_sizes_of_views_and_slices() -> None:
    g = XnnpackWriter()
    x, flat = g.value((4, 6), argument=0, dynamic=True), g.value((8, 3))
    g.node("StaticReshape", x, flat, num_dims=2, shape=(0, 3))
    out = g.value((6, 3), argument=1, output=True, dynamic=True)
    g.node("StaticSlice", flat, out, num_dims=2, offsets=(2, 0), sizes=(6, 3))

    async def run() -> None:
        async with await load(g.method()) as program:
            for rows, columns in ((4, 6), (1, 6), (3, 6), (2, 3), (4, 6)):
                given = floats(rows, columns)
                (found,) = await program.forward(given)
                np.testing.assert_array_equal(found, given.reshape(-1, 3)[2:8])
            with pytest.raises(ExecutionError, match="10 elements do not fill"):
                await program.forward(floats(2, 5))

    wait(run())


def test_a_view_of_fixed_sizes_takes_no_others() -> None:
    g = XnnpackWriter()
    x, y = g.value((4, 6), argument=0, dynamic=True), g.value((8, 3), argument=1, output=True)
    g.node("StaticReshape", x, y, num_dims=2, shape=(8, 3))

    async def run() -> None:
        async with await load(g.method()) as program:
            with pytest.raises(ExecutionError, match="cannot be viewed"):
                await program.forward(floats(2, 6))

    wait(run())


def test_elementwise_nodes_keep_the_order() -> None:
    g = XnnpackWriter()
    x, y = g.value((2, 3, 4), argument=0), g.value((2, 3, 4), argument=1, output=True)
    turned, made, half = (g.value((4, 2, 3)) for _ in range(3))
    g.node("StaticTranspose", x, turned, num_dims=3, perm=(2, 0, 1))
    g.node("Abs", turned, made)
    g.node("Multiply", made, g.value((), constant=np.float32(0.5).tobytes()), half)
    g.node("StaticTranspose", half, y, num_dims=3, perm=(1, 2, 0))
    assert names_of(g) == ["aten.abs.default", "aten.mul.Tensor"]
    given = floats(2, 3, 4)
    np.testing.assert_array_equal(computed(g, given), np.abs(given) / 2)
