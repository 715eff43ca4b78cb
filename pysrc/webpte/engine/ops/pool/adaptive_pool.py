"""Adaptive pooling: averages and maxima over windows that give a requested output size.

    self (.., *sizes) -> out (.., *output_size), over the last one, two or three dims
    maxima: also their flat indices in the pooled dims; the last NaN wins, as in torch

The i-th of `count` windows over `size` elements is floor(i * size / count) to ceil((i + 1) * size /
count), exclusive: adjacent windows may share an element.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import WORKGROUP_SIZE, float_type, quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import check_floats
from webpte.engine.shapes import Dims
from webpte.errors import GraphError

Array = np.ndarray

RANKS = (1, 2, 3)  # number of pooled dims


def windows_along(size: int, count: int) -> list[range]:
    return [range(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def windows_of(sizes: Sequence[int], counts: Sequence[int]) -> Iterator[tuple[Any, Array]]:
    """Yield the index of each output, and the flat places of its window in the pooled dims."""
    numbers = np.arange(math.prod(sizes)).reshape(sizes)
    for at in product(*map(enumerate, map(windows_along, sizes, counts))):
        window = numbers[np.ix_(*(part for _, part in at))].reshape(-1)
        yield (..., *(i for i, _ in at)), window


def window_averages(x: Array, counts: Sequence[int]) -> Array:
    """Return the averages of windows, in float32 or, for float64, in float64."""
    rank = len(counts)
    outer, sizes = x.shape[:-rank], x.shape[-rank:]
    wide = np.float64 if x.dtype == np.float64 else np.float32
    flat = x.reshape(*outer, math.prod(sizes)).astype(wide)
    averages = np.zeros((*outer, *counts), wide)
    for place, window in windows_of(sizes, counts):
        averages[place] = np.cumsum(flat[..., window], axis=-1)[..., -1] / wide(window.size)
    return averages


def adaptive_shape(rank: int, args: Args) -> tuple[Dims]:
    source, sizes = args.tensor("self"), args.integers("output_size")
    check_floats(args, source, args.outs[0])
    if len(sizes) != rank or min(sizes) < 0 or source.rank not in (rank + 1, rank + 2):
        raise GraphError(f"{args.call}: {list(source.dims)} cannot be pooled to {sizes}")
    if 0 in source.dims[-rank:]:
        raise GraphError(f"{args.call}: {list(source.dims)} has no elements to pool")
    return ((*source.dims[:-rank], *sizes),)


def lower_adaptive(rank: int, args: Args) -> list[Dispatch]:
    source, out = args.tensor("self"), args.out
    if out.numel == 0:
        return []
    quads, flat = quad_count(out.numel), (1,) * (3 - rank)
    return [
        Dispatch(
            kernel="adaptive_pool",
            bindings=(source.id, out.id),
            params=pack(
                "3II3II", *flat, *source.dims[-rank:], quads, *flat, *out.dims[-rank:], out.numel
            ),
            grid=quad_grid(quads),
            types=(("FLOAT", float_type(args, source, out)),),
        )
    ]


# Maxima


def maximum_shape(rank: int, args: Args) -> tuple[Dims, Dims]:
    indices = args.outs[1].dtype
    if indices.stored != "int32":
        raise GraphError(f"{args.call}: indices are int32 or int64, not {indices.name}")
    return adaptive_shape(rank, args) * 2


def lower_maximum(rank: int, args: Args) -> list[Dispatch]:
    source, (out, indices) = args.tensor("self"), args.outs
    if out.numel == 0:
        return []
    flat = (1,) * (3 - rank)
    return [
        Dispatch(
            kernel="adaptive_pool_max",
            bindings=(source.id, out.id, indices.id),
            params=pack("3II3I", *flat, *source.dims[-rank:], out.numel, *flat, *out.dims[-rank:]),
            grid=fold_grid(ceil_div(out.numel, WORKGROUP_SIZE)),
            types=(("FLOAT", float_type(args, source, out)),),
        )
    ]


def run_maximum(rank: int, args: Args) -> list[Array]:
    x, counts = args.array("self"), args.integers("output_size")
    outer, sizes = x.shape[:-rank], x.shape[-rank:]
    flat = x.reshape(*outer, math.prod(sizes))
    places = np.zeros((*outer, *counts), np.int64)
    for key, window in windows_of(sizes, counts):
        found = flat[..., window]
        last = window.size - 1 - np.argmax(np.isnan(found[..., ::-1]), axis=-1)
        best = np.where(np.isnan(found).any(axis=-1), last, np.argmax(found, axis=-1))
        places[key] = window[best]
    values = np.take_along_axis(flat, places.reshape(*outer, math.prod(counts)), axis=-1)
    return [values.reshape(places.shape), places]


for _rank in (2, 3):
    register(
        f"aten.adaptive_max_pool{_rank}d.default",
        "self: tensor, output_size: ints -> tensors",
        shape=lambda args, rank=_rank: maximum_shape(rank, args),  # type: ignore[misc]
        lower=lambda args, rank=_rank: lower_maximum(rank, args),  # type: ignore[misc]
        reference=lambda args, rank=_rank: run_maximum(rank, args),  # type: ignore[misc]
    )
for _rank in RANKS:
    register(
        f"aten._adaptive_avg_pool{_rank}d.default",
        "self: tensor, output_size: ints -> tensor",
        shape=lambda args, rank=_rank: adaptive_shape(rank, args),  # type: ignore[misc]
        lower=lambda args, rank=_rank: lower_adaptive(rank, args),  # type: ignore[misc]
        reference=lambda args: window_averages(args.array("self"), args.integers("output_size")),
    )
