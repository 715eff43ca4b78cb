"""A copy of a tensor with part of a dim replaced by another tensor; elements keep their bits.

    slice_scatter(self, src, dim, start, end, step)    out[.., start:end:step, ..] = src
    select_scatter(self, src, dim, index)              out[.., index, ..] = src

Elsewhere `out` is `self`. Ends are clamped as in a slice.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.move_units import check_same_type, move, widest_unit
from webpte.engine.ops.core.records import Dispatch, ceil_div, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.move.slicing import dim_of, slice_of, with_size
from webpte.engine.shapes import Dims, normalize_index, numel
from webpte.errors import GraphError

Array = np.ndarray


def sliced(args: Args) -> tuple[int, slice, Dims]:
    """Return the dim, its slice, and the shape that src must have."""
    dim, part = slice_of(args)
    length = ceil_div(part.stop - part.start, part.step)
    return dim, part, with_size(args.tensor("self").dims, dim, length)


def selected(args: Args) -> tuple[int, slice, Dims]:
    dim, dims = dim_of(args), args.tensor("self").dims
    index = args.integer("index")
    if not -dims[dim] <= index < dims[dim]:
        raise GraphError(f"{args.call}: index {index} is outside of a dim of size {dims[dim]}")
    at = normalize_index(index, dims[dim])
    return dim, slice(at, at + 1, 1), with_size(dims, dim)


PARTS = {
    "aten.slice_scatter.default": (
        "self: tensor, src: tensor, dim: int = 0, start: int? = None, end: int? = None, "
        "step: int = 1 -> tensor",
        sliced,
    ),
    "aten.select_scatter.default": (
        "self: tensor, src: tensor, dim: int, index: int -> tensor",
        selected,
    ),
}


def part_of(args: Args) -> tuple[int, slice, Dims]:
    """Return the dim, the slice and its shape; raise unless src has that shape."""
    dim, part, shape = PARTS[args.call.name][1](args)
    source = args.tensor("src")
    if source.dims != shape:
        raise GraphError(f"{args.call}: {list(source.dims)} does not fit into {list(shape)}")
    return dim, part, shape


def scattered_shape(args: Args) -> tuple[Dims]:
    part_of(args)
    return (args.tensor("self").dims,)


def lower_scattered(args: Args) -> list[Dispatch]:
    x, source, out = args.tensor("self"), args.tensor("src"), args.out
    dim, part, _ = part_of(args)
    check_same_type(args, x.dtype, source.dtype)
    if out.numel == 0:
        return []
    inner = numel(x.dims[dim + 1 :])
    unit = widest_unit(out.dtype, lambda n: inner % n == 0)
    length = ceil_div(part.stop - part.start, part.step)
    params = pack(
        "6I",
        *(inner // unit.elements, x.dims[dim]),
        *(part.start, part.stop, part.step, length),
    )
    # An empty source has no memory; None binds a small buffer, which the kernel does not read.
    given = source.id if source.numel else None
    return [move("slice_scatter", (x.id, given, out.id), unit, out.numel, params)]


def run_scattered(args: Args) -> Array:
    dim, part, _ = part_of(args)
    result = args.array("self").copy()
    place = (slice(None),) * dim + (part,)
    result[place] = args.array("src").reshape(result[place].shape)
    return result


for _name, (_signature, _) in PARTS.items():
    register(
        _name,
        _signature,
        shape=scattered_shape,
        lower=lower_scattered,
        reference=run_scattered,
    )
