"""Constant padding: aten.constant_pad_nd(self, pad, value), any rank and type.

`pad` holds (before, after) of the last dim, then of the dim before it, and so on; negative numbers
crop.

    out[.., i, ..] = self[.., i - before, ..] where i - before is inside of self, else value
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.move_units import (
    check_same_type,
    move,
    pack_rows,
    scalar_as,
    scalar_bits,
    widest_unit,
)
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.shapes import Dims
from webpte.errors import GraphError


def borders(args: Args) -> list[tuple[int, int]]:
    """Return (before, after) of each dim."""
    rank, pad = args.tensor("self").rank, args.integers("pad")
    if len(pad) % 2 or len(pad) > 2 * rank:
        raise GraphError(f"{args.call}: pad={pad} is not a list of pairs for rank {rank}")
    pairs = list(zip(pad[::2], pad[1::2], strict=True))
    return [(0, 0)] * (rank - len(pairs)) + pairs[::-1]


def padded_shape(args: Args) -> tuple[Dims]:
    source = args.tensor("self")
    dims = tuple(
        size + before + after
        for size, (before, after) in zip(source.dims, borders(args), strict=True)
    )
    if min(dims, default=0) < 0:
        raise GraphError(f"{args.call}: crops more than there is of {list(source.dims)}")
    return (dims,)


def merged_axes(args: Args) -> list[tuple[int, int, int]]:
    """Return (size, input size, before) per axis; an axis without padding joins its outer axis."""
    source = args.tensor("self")
    axes: list[tuple[int, int, int]] = []
    for size, width, (before, after) in zip(args.out.dims, source.dims, borders(args), strict=True):
        if axes and before == after == 0:
            outer, outer_width, outer_before = axes.pop()
            axes.append((outer * size, outer_width * width, outer_before * size))
        else:
            axes.append((size, width, before))
    return axes


def lower_pad(args: Args) -> list[Dispatch]:
    source, out = args.tensor("self"), args.out
    check_same_type(args, source.dtype)
    if out.numel == 0:
        return []
    axes = merged_axes(args)
    unit = widest_unit(out.dtype, lambda n: not axes or all(size % n == 0 for size in axes[-1]))
    if axes:
        size, width, before = (size // unit.elements for size in axes[-1])
        axes[-1] = (size, width, before)
    value = scalar_bits(args, args.number("value"), out.dtype)
    params = pack("2I", len(axes), value) + pack_rows(args, axes)
    return [move("pad", (source.id, out.id), unit, out.numel, params)]


def run_pad(args: Args) -> np.ndarray:
    x, (dims,) = args.array("self"), padded_shape(args)
    value = np.array(scalar_as(args, args.number("value"), args.out.dtype))
    out = np.full(dims, value.astype(x.dtype))
    source, target = [], []
    for size, width, (before, _) in zip(dims, x.shape, borders(args), strict=True):
        start, end = max(before, 0), min(before + width, size)
        target.append(slice(start, max(start, end)))
        source.append(slice(start - before, max(start, end) - before))
    out[tuple(target)] = x[tuple(source)]
    return out


register(
    "aten.constant_pad_nd.default",
    "self: tensor, pad: ints, value: number = 0 -> tensor",
    shape=padded_shape,
    lower=lower_pad,
    reference=run_pad,
)
