"""Copies that only reorder: out[i] = self[base + sum of coordinate * stride], strides of any sign.

    permute_copy, t_copy     axes in another order      (2, 3, 5) by [2, 0, 1] -> (5, 2, 3)
    expand_copy, repeat      axes read repeatedly       stride 0
    copy                     likewise, into the shape of another tensor
    flip                     axes read from their end   stride < 0
    diagonal_copy            two axes at once           the sum of their strides
    unfold_copy              windows along an axis, as a new last axis
    pixel_shuffle            (C r r, H, W) -> (C, H r, W r)

A row has the shape and the walk through the input. Slices of a dim, with the same kernels, are in
slicing.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.move_units import (
    NO_INDEX,
    check_same_type,
    move,
    pack_rows,
    widest_unit,
)
from webpte.engine.ops.core.records import Binding, Dispatch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.shapes import (
    Dims,
    broadcast,
    broadcast_strides,
    collapse,
    contiguous_strides,
    normalize_dim,
    numel,
)
from webpte.errors import GraphError

Array = np.ndarray

TILE = 32  # also in wgsl/move/strided_transpose.wgsl
MIN_TILED = 16  # a shorter axis leaves most of a tile idle


@dataclass(frozen=True)
class Start:
    """A live index along a dim of `size`; the offset is index * stride."""

    index: Binding = NO_INDEX
    size: int = 1
    stride: int = 0


@dataclass(frozen=True)
class StridedWalk:
    """The walk of an output of shape `dims` through the input; strides in elements."""

    dims: Dims
    strides: Dims
    base: int = 0
    start: Start = field(default_factory=Start)


@dataclass(frozen=True)
class Strided:
    """A single op: its shape, its walk, and its NumPy function."""

    name: str
    signature: str
    shape: Callable[[Args], tuple[Dims]]
    walk: Callable[[Args], StridedWalk]
    numpy: Callable[[Args], Array]


# Permute


def permutation(args: Args) -> Dims:
    rank = args.tensor("self").rank
    order = tuple(normalize_dim(dim, rank) for dim in args.integers("dims"))
    if sorted(order) != list(range(rank)):
        raise GraphError(f"{args.call}: {list(order)} does not order the dims of rank {rank}")
    return order


def reversal(args: Args) -> Dims:
    rank = args.tensor("self").rank
    if rank > 2:
        raise GraphError(f"{args.call}: transposes rank 2 at most, not {rank}")
    return tuple(reversed(range(rank)))


def permuted_shape(args: Args, order: Dims) -> tuple[Dims]:
    dims = args.tensor("self").dims
    return (tuple(dims[dim] for dim in order),)


def permuted_walk(args: Args, order: Dims) -> StridedWalk:
    strides = contiguous_strides(args.tensor("self").dims)
    return StridedWalk(permuted_shape(args, order)[0], tuple(strides[dim] for dim in order))


# Expand, repeat, flip


def expanded_shape(args: Args) -> tuple[Dims]:
    """Return the expanded shape: -1 keeps a size, and new dims come first."""
    source, sizes = args.tensor("self"), args.integers("size")
    added = len(sizes) - source.rank
    if added < 0:
        raise GraphError(f"{args.call}: {list(source.dims)} has more dims than {sizes}")
    dims = (1,) * added + source.dims
    wanted = tuple(
        size if given == -1 and axis >= added else given
        for axis, (size, given) in enumerate(zip(dims, sizes, strict=True))
    )
    if any(new < 0 or old not in (1, new) for old, new in zip(dims, wanted, strict=True)):
        raise GraphError(f"{args.call}: {list(source.dims)} does not expand to {sizes}")
    return (wanted,)


def expanded_walk(args: Args) -> StridedWalk:
    (dims,) = expanded_shape(args)
    return StridedWalk(dims, broadcast_strides(args.tensor("self").dims, dims))


def filled_shape(args: Args) -> tuple[Dims]:
    """Return the shape of the tensor that is overwritten; its elements are unused."""
    dims, source = args.tensor("into").dims, args.tensor("self")
    if broadcast(source.dims, dims) != dims:
        raise GraphError(f"{args.call}: {list(source.dims)} does not expand to {list(dims)}")
    return (dims,)


def filled_walk(args: Args) -> StridedWalk:
    (dims,) = filled_shape(args)
    return StridedWalk(dims, broadcast_strides(args.tensor("self").dims, dims))


def repeats(args: Args) -> tuple[Dims, Dims]:
    """Return the repetitions of each dim, and the dims padded with leading 1s."""
    source, times = args.tensor("self"), args.integers("repeats")
    if len(times) < source.rank or min(times, default=0) < 0:
        raise GraphError(f"{args.call}: cannot repeat {list(source.dims)} {times} times")
    return tuple(times), (1,) * (len(times) - source.rank) + source.dims


def repeated_shape(args: Args) -> tuple[Dims]:
    return (tuple(size * times for times, size in zip(*repeats(args), strict=True)),)


def repeated_walk(args: Args) -> StridedWalk:
    times, dims = repeats(args)
    strides = contiguous_strides(dims)
    pairs = [axis for pair in zip(times, dims, strict=True) for axis in pair]
    return StridedWalk(tuple(pairs), tuple(step for stride in strides for step in (0, stride)))


def flipped(args: Args) -> list[int]:
    rank = args.tensor("self").rank
    dims = [normalize_dim(dim, rank) for dim in args.integers("dims")]
    if len(set(dims)) < len(dims):
        raise GraphError(f"{args.call}: flips a dim twice: {dims}")
    return dims if rank else []


def flipped_walk(args: Args) -> StridedWalk:
    dims, dims_flipped = args.tensor("self").dims, flipped(args)
    strides = list(contiguous_strides(dims))
    base = sum((dims[dim] - 1) * strides[dim] for dim in dims_flipped)
    for dim in dims_flipped:
        strides[dim] *= -1
    return StridedWalk(dims, tuple(strides), base)


def diagonal_walk(args: Args) -> StridedWalk:
    """Return the walk along a diagonal of two dims, which becomes the last dim."""
    dims, offset = args.tensor("self").dims, args.integer("offset")
    strides = contiguous_strides(dims)
    down, across = (normalize_dim(args.integer(name), len(dims)) for name in ("dim1", "dim2"))
    if down == across:
        raise GraphError(f"{args.call}: a diagonal of dim {down} and itself")
    size = min(dims[down] - max(-offset, 0), dims[across] - max(offset, 0))
    kept = [dim for dim in range(len(dims)) if dim not in (down, across)]
    return StridedWalk(
        (*(dims[dim] for dim in kept), max(size, 0)),
        (*(strides[dim] for dim in kept), strides[down] + strides[across]),
        max(-offset, 0) * strides[down] + max(offset, 0) * strides[across],
    )


def run_diagonal(args: Args) -> Array:
    x, dims = args.array("self"), (args.integer("dim1"), args.integer("dim2"))
    return np.diagonal(x, args.integer("offset"), *(normalize_dim(dim, x.ndim) for dim in dims))


# Windows and blocks


def windows(args: Args) -> tuple[int, int, int]:
    """Return the dim, the window size and the window count; rank 0 counts as one element."""
    dims = args.tensor("self").dims or (1,)
    dim = normalize_dim(args.integer("dimension"), len(dims))
    size, step = args.integer("size"), args.integer("step")
    if step < 1 or not 0 <= size <= dims[dim]:
        raise GraphError(
            f"{args.call}: windows of {size} in steps of {step} do not fit a dim of {dims[dim]}"
        )
    return dim, size, (dims[dim] - size) // step + 1


def unfolded_shape(args: Args) -> tuple[Dims]:
    dims, (dim, size, count) = args.tensor("self").dims, windows(args)
    return ((*dims[:dim], count, *dims[dim + 1 :], size) if dims else (size,),)


def unfolded_walk(args: Args) -> StridedWalk:
    dims, (dim, _, _) = args.tensor("self").dims, windows(args)
    strides = list(contiguous_strides(dims)) or [1]
    strides = [*strides, strides[dim]] if dims else strides
    strides[dim] *= args.integer("step") if dims else 1
    return StridedWalk(unfolded_shape(args)[0], tuple(strides))


def run_unfold(args: Args) -> Array:
    (dims,), (dim, size, _) = unfolded_shape(args), windows(args)
    x = np.atleast_1d(args.array("self"))
    if size == 0:
        return np.empty(dims, x.dtype)
    view = np.lib.stride_tricks.sliding_window_view(x, size, axis=dim)
    return view[(slice(None),) * dim + (slice(None, None, args.integer("step")),)].reshape(dims)


def shuffle_blocks(args: Args) -> Dims:
    """Return the input's shape as (batch * output channels, r, r, height, width)."""
    dims, r = args.tensor("self").dims, args.integer("upscale_factor")
    if len(dims) < 3 or r < 1 or dims[-3] % (r * r):
        raise GraphError(f"{args.call}: {list(dims)} is not (..., C * {r} * {r}, H, W)")
    return (numel(dims[:-2]) // (r * r), r, r, *dims[-2:])


def shuffled_shape(args: Args) -> tuple[Dims]:
    _, r, _, height, width = shuffle_blocks(args)
    *batch, channels, _, _ = args.tensor("self").dims
    return ((*batch, channels // (r * r), height * r, width * r),)


def shuffled_walk(args: Args) -> StridedWalk:
    count, r, _, height, width = blocks = shuffle_blocks(args)
    channel, down, across, row, column = contiguous_strides(blocks)
    return StridedWalk((count, height, r, width, r), (channel, row, down, column, across))


def run_shuffle(args: Args) -> Array:
    blocks = args.array("self").reshape(shuffle_blocks(args))
    return blocks.transpose(0, 3, 1, 4, 2).reshape(shuffled_shape(args)[0])


# Lowering


def lower_walk(args: Args, walk: StridedWalk, out: TensorArg) -> list[Dispatch]:
    """Lower a walk to the fastest kernel: merged axes, wide units, tiles for transposes."""
    source = args.tensor("self")
    check_same_type(args, source.dtype)
    if out.numel == 0:
        return []
    sizes, (strides,) = collapse(walk.dims, walk.strides)
    row = transposed_axis(sizes, strides)
    if row is not None and source.dtype.storage.itemsize > 1 and not args.target.software:
        return [lower_transpose(args, walk, row, out)]
    fixed = (walk.base, walk.start.stride, *strides[:-1])

    def divides(n: int) -> bool:
        contiguous = not sizes or strides[-1] == 1
        # A single run may be copied in whole units beyond its end: buffers are padded.
        whole = len(sizes) < 2 or sizes[-1] % n == 0
        return contiguous and whole and all(stride % n == 0 for stride in fixed)

    unit = widest_unit(source.dtype, divides)
    n = unit.elements
    rows = [(size, stride // n) for size, stride in zip(sizes, strides, strict=True)]
    if sizes:
        rows[-1] = (ceil_div(sizes[-1], n), strides[-1])
    params = pack(
        "I3i8x", len(rows), walk.base // n, walk.start.size, walk.start.stride // n
    ) + pack_rows(args, rows)
    bindings = (source.id, out.id, walk.start.index)
    return [move("strided", bindings, unit, out.numel, params)]


def transposed_axis(sizes: Dims, strides: Dims) -> int | None:
    """Return the axis that is contiguous in the input, if it is not the output's innermost axis."""
    if not sizes or abs(strides[-1]) < 2 or sizes[-1] < MIN_TILED:
        return None
    rows = [axis for axis, stride in enumerate(strides) if abs(stride) == 1]
    return next((axis for axis in rows if sizes[axis] >= MIN_TILED), None)


def lower_transpose(args: Args, walk: StridedWalk, row: int, out: TensorArg) -> Dispatch:
    sizes, (strides,) = collapse(walk.dims, walk.strides)
    out_strides = contiguous_strides(sizes)
    across, down = ceil_div(sizes[-1], TILE), ceil_div(sizes[row], TILE)
    batch = [
        (sizes[axis], strides[axis], out_strides[axis])
        for axis in range(len(sizes) - 1)
        if axis != row
    ]
    tiles = across * down * numel([size for size, _, _ in batch])
    params = pack(
        "5IiIiI3i",
        *(tiles, across, down, len(batch)),
        *(sizes[-1], strides[-1]),
        *(sizes[row], strides[row], out_strides[row]),
        *(walk.base, walk.start.size, walk.start.stride),
    )
    return Dispatch(
        kernel="strided_transpose",
        bindings=(args.tensor("self").id, out.id, walk.start.index),
        params=params + pack_rows(args, batch),
        grid=fold_grid(tiles),
        types=(("UNIT", "u32" if out.dtype.storage.itemsize == 4 else "f16"),),
    )


def lower_strided(op: Strided, args: Args) -> list[Dispatch]:
    return lower_walk(args, op.walk(args), args.out)


STRIDED = (
    *(
        Strided(
            name,
            "self: tensor, dims: ints -> tensor",
            lambda args: permuted_shape(args, permutation(args)),
            lambda args: permuted_walk(args, permutation(args)),
            lambda args: args.array("self").transpose(permutation(args)),
        )
        for name in ("aten.permute_copy.default", "aten.permute.default")
    ),
    Strided(
        "aten.t_copy.default",
        "self: tensor -> tensor",
        lambda args: permuted_shape(args, reversal(args)),
        lambda args: permuted_walk(args, reversal(args)),
        lambda args: args.array("self").T,
    ),
    Strided(
        "aten.expand_copy.default",
        "self: tensor, size: ints, implicit: any = None -> tensor",
        expanded_shape,
        expanded_walk,
        lambda args: np.broadcast_to(args.array("self"), expanded_shape(args)[0]),
    ),
    Strided(
        "aten.copy.default",
        "into: tensor, self: tensor, non_blocking: any = None -> tensor",
        filled_shape,
        filled_walk,
        lambda args: np.broadcast_to(args.array("self"), filled_shape(args)[0]),
    ),
    Strided(
        "aten.repeat.default",
        "self: tensor, repeats: ints -> tensor",
        repeated_shape,
        repeated_walk,
        lambda args: np.tile(args.array("self"), args.integers("repeats")),
    ),
    Strided(
        "aten.flip.default",
        "self: tensor, dims: ints -> tensor",
        lambda args: (flipped_walk(args).dims,),
        flipped_walk,
        lambda args: np.flip(args.array("self"), tuple(flipped(args))),
    ),
    Strided(
        "aten.diagonal_copy.default",
        "self: tensor, offset: int = 0, dim1: int = 0, dim2: int = 1 -> tensor",
        lambda args: (diagonal_walk(args).dims,),
        diagonal_walk,
        run_diagonal,
    ),
    Strided(
        "aten.unfold_copy.default",
        "self: tensor, dimension: int, size: int, step: int -> tensor",
        unfolded_shape,
        unfolded_walk,
        run_unfold,
    ),
    Strided(
        "aten.pixel_shuffle.default",
        "self: tensor, upscale_factor: int -> tensor",
        shuffled_shape,
        shuffled_walk,
        run_shuffle,
    ),
)

for _op in STRIDED:
    register(
        _op.name,
        _op.signature,
        shape=_op.shape,
        lower=lambda args, op=_op: lower_strided(op, args),  # type: ignore[misc]
        reference=_op.numpy,
    )
