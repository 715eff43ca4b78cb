"""Average pooling to a given size: windows alike as far as they can be.

    self (.., *sizes) -> out (.., *output_size), over the last one, two or three dims

The i-th of `count` windows over `size` elements reaches from i * size // count to the first whole
number that is not below (i + 1) * size / count: neighbours may share an element.
"""

from __future__ import annotations

import numpy as np

from webpte.errors import GraphError
from webpte.ops.args import Args
from webpte.ops.elementwise import float_type, quad_count, quad_grid
from webpte.ops.records import Dispatch, pack
from webpte.ops.registry import register
from webpte.ops.rows import check_floats
from webpte.shapes import Dims

Array = np.ndarray

RANKS = (1, 2, 3)  # how many dims are pooled


def adaptive_shape(rank: int, args: Args) -> tuple[Dims]:
    source, sizes = args.tensor("self"), args.integers("output_size")
    check_floats(args, source, args.out)
    if len(sizes) != rank or min(sizes) < 0 or source.rank not in (rank + 1, rank + 2):
        raise GraphError(f"{args.call}: {list(source.dims)} cannot be pooled to {sizes}")
    if 0 in source.dims[-rank:]:
        raise GraphError(f"{args.call}: {list(source.dims)} has no elements to average")
    return ((*source.dims[:-rank], *sizes),)


def lower_adaptive(rank: int, args: Args) -> list[Dispatch]:
    source, out = args.tensor("self"), args.out
    if out.numel == 0:
        return []
    quads, flat = quad_count(out.numel), (1,) * (3 - rank)
    return [
        Dispatch(
            kernel="adaptive",
            bindings=(source.id, out.id),
            params=pack(
                "3II3II", *flat, *source.dims[-rank:], quads, *flat, *out.dims[-rank:], out.numel
            ),
            grid=quad_grid(quads),
            types=(("FLOAT", float_type(args, source, out)),),
        )
    ]


def run_adaptive(rank: int, args: Args) -> Array:
    x = args.array("self").astype(np.float64)
    for axis, count in zip(range(-rank, 0), args.integers("output_size"), strict=True):
        size = x.shape[axis]
        windows = [range(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
        parts = [x.take(window, axis).mean(axis) for window in windows]
        x = np.stack(parts, axis) if parts else x.take([], axis)
    return x


for _rank in RANKS:
    register(
        f"aten._adaptive_avg_pool{_rank}d.default",
        "self: tensor, output_size: ints -> tensor",
        shape=lambda args, rank=_rank: adaptive_shape(rank, args),  # type: ignore[misc]
        lower=lambda args, rank=_rank: lower_adaptive(rank, args),  # type: ignore[misc]
        reference=lambda args, rank=_rank: run_adaptive(rank, args),  # type: ignore[misc]
    )
