"""Shape arithmetic, against NumPy."""

from __future__ import annotations

import random

import numpy as np
import pytest

from support.harness.every import check_every
from webpte.engine.shapes import (
    broadcast,
    broadcast_strides,
    collapse,
    contiguous_strides,
    normalize_dim,
    normalize_index,
    numel,
)
from webpte.errors import GraphError


@pytest.mark.parametrize(("dims", "count"), [((), 1), ((3,), 3), ((2, 0, 5), 0), ((2, 3, 5), 30)])
def test_numel(dims: tuple[int, ...], count: int) -> None:
    assert numel(dims) == count


@pytest.mark.parametrize(
    ("dim", "rank", "expected"),
    [(0, 3, 0), (2, 3, 2), (-1, 3, 2), (-3, 3, 0), (0, 0, 0), (-1, 0, 0)],
)
def test_normalize_dim(dim: int, rank: int, expected: int) -> None:
    assert normalize_dim(dim, rank) == expected


@pytest.mark.parametrize(("dim", "rank"), [(3, 3), (-4, 3), (1, 0), (-2, 0), (99, 1)])
def test_normalize_dim_refuses(dim: int, rank: int) -> None:
    with pytest.raises(GraphError, match=rf"dim {dim} is outside a tensor of rank {rank}"):
        normalize_dim(dim, rank)


@pytest.mark.parametrize(
    ("index", "size", "expected"), [(0, 4, 0), (3, 4, 3), (-1, 4, 3), (-4, 4, 0)]
)
def test_normalize_index(index: int, size: int, expected: int) -> None:
    assert normalize_index(index, size) == expected


@pytest.mark.parametrize(("index", "size"), [(4, 4), (-5, 4), (0, 0), (-1, 0)])
def test_normalize_index_refuses(index: int, size: int) -> None:
    with pytest.raises(GraphError, match=rf"index {index} is outside a dim of size {size}"):
        normalize_index(index, size)


@pytest.mark.parametrize(
    "shapes",
    [
        [(3,)],
        [(), ()],
        [(5, 1), (1, 7)],
        [(5, 7), ()],
        [(3, 1, 5), (2, 1, 7, 1)],
        [(0, 1), (1, 5)],
        [(1,), (0,)],
        [(2, 1), (1, 3), (2, 3)],
    ],
)
def test_broadcast_is_numpys(shapes: list[tuple[int, ...]]) -> None:
    assert broadcast(*shapes) == np.broadcast_shapes(*shapes)


def test_broadcast_of_nothing_has_no_dims() -> None:
    assert broadcast() == ()


@pytest.mark.parametrize("shapes", [[(3,), (4,)], [(2, 3), (2,)], [(0,), (3,)], [(5, 2), (5, 3)]])
def test_broadcast_refuses_what_numpy_refuses(shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match="shape mismatch"):
        np.broadcast_shapes(*shapes)
    with pytest.raises(GraphError) as caught:
        broadcast(*shapes)
    assert all(str(list(shape)) in str(caught.value) for shape in shapes)


def random_dims(rng: random.Random, rank: int) -> tuple[int, ...]:
    return tuple(rng.choice((1, 1, 2, 3, 5)) for _ in range(rank))


def test_strides_are_numpys() -> None:
    check_every(range(40), check_strides)


def check_strides(seed: int) -> None:
    rng = random.Random(seed)
    target = random_dims(rng, rng.randint(0, 6))
    dims = tuple(rng.choice((size, 1)) for size in target)[rng.randint(0, len(target)) :]
    array = np.arange(numel(dims), dtype=np.int8).reshape(dims)
    wide = np.broadcast_to(array, target)
    expected = tuple(
        0 if size == 1 else stride for size, stride in zip(wide.shape, wide.strides, strict=True)
    )
    # NumPy gives size-1 axes of the source any stride; only axes that are walked count.
    walked = tuple(
        0 if size == 1 else stride
        for size, stride in zip(target, broadcast_strides(dims, target), strict=True)
    )
    assert walked == expected
    if numel(target) > 1:
        own = np.zeros(target, np.int8).strides
        assert all(
            size == 1 or stride == theirs
            for size, stride, theirs in zip(target, contiguous_strides(target), own, strict=True)
        )


def test_collapse_walks_the_same_elements() -> None:
    """Every element is found at the same place through fewer axes."""
    check_every(range(120), check_collapse)


def check_collapse(seed: int) -> None:
    rng = random.Random(seed)
    target = random_dims(rng, rng.randint(0, 7))
    operands = [tuple(rng.choice((size, 1)) for size in target) for _ in range(rng.randint(1, 3))]
    strides = [broadcast_strides(operand, target) for operand in operands]
    sizes, merged = collapse(target, *strides)
    assert numel(sizes) == numel(target)
    assert 1 not in sizes
    assert len(sizes) <= len(target)
    for operand, steps in zip(operands, merged, strict=True):
        data = np.arange(numel(operand), dtype=np.int32)
        plain = np.broadcast_to(data.reshape(operand), target).ravel()
        offsets = np.array([np.dot(steps, index) for index in np.ndindex(*sizes)], int)
        np.testing.assert_array_equal(data[offsets], plain)


@pytest.mark.parametrize(
    ("dims", "strides", "sizes"),
    [
        ((2, 3, 4), [(12, 4, 1)], (24,)),
        ((2, 3, 4), [(12, 4, 1), (0, 4, 1)], (2, 12)),
        ((2, 3, 4), [(12, 4, 1), (1, 0, 0)], (2, 12)),
        ((2, 1, 4), [(4, 4, 1), (4, 0, 1)], (8,)),
        ((1, 1), [(1, 1)], ()),
        ((), [()], ()),
    ],
)
def test_collapse_merges_what_it_can(
    dims: tuple[int, ...], strides: list[tuple[int, ...]], sizes: tuple[int, ...]
) -> None:
    assert collapse(dims, *strides)[0] == sizes
