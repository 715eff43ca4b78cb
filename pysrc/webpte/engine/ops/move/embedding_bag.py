"""Embedding bags: sums, means or maxima of groups of a table's rows.

    _embedding_bag(weight, indices, offsets, .., mode, .., per_sample_weights, include_last_offset,
                   padding_idx) -> output, offset2bag, bag_size, max_indices

Bag i has the rows indices[offsets[i]:offsets[i + 1]], without rows equal to `padding_idx`. Sums do
not need the other three outputs: PyTorch leaves `offset2bag` empty unless a row is left out, and
does not define the rest, which are zeros here.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import WORKGROUP_SIZE, float_type
from webpte.engine.ops.core.records import Binding, Dispatch, Scratch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.move.indexing import check_indices
from webpte.engine.shapes import Dims
from webpte.errors import ExecutionError, GraphError, IndexRangeError

Array = np.ndarray

SUM, MEAN, MAX = range(3)  # PyTorch's numbers
NAMES = ("sum", "mean", "max")


def bounds_of(offsets: Array, count: int, include_last: bool, mode: int) -> list[int]:
    """List the begins of the bags, and the end of the last bag.

    Indices after that end are in no sum, but PyTorch counts them in the last mean's divisor; a
    maximum ignores them.
    """
    starts = [int(start) for start in offsets.reshape(-1)]
    bounds = starts if include_last else [*starts, count]
    if include_last and not bounds:
        raise ExecutionError("include_last_offset=True needs an offset")
    rising = all(a <= b for a, b in pairwise(bounds))
    ends_early = include_last and mode != MAX and bounds[-1] < count
    ends_well = ends_early or bounds[-1] == count
    if not ends_well or not rising or (starts and starts[0]):
        raise IndexRangeError(f"offsets {starts} do not cut {count} indices into bags from 0 on")
    return bounds


def check_call(
    weight: Array, indices: Array, mode: int, per_sample: Array | None, padding_idx: int
) -> None:
    if weight.ndim != 2 or indices.ndim != 1 or mode not in (SUM, MEAN, MAX):
        raise ExecutionError(
            f"takes a table and a row of indices, mode 0 to 2, not {list(weight.shape)}, "
            f"{list(indices.shape)}, mode {mode}"
        )
    if per_sample is not None and (mode != SUM or per_sample.shape != indices.shape):
        raise ExecutionError(
            f"weights {list(per_sample.shape)} for {len(indices)} indices, mode {NAMES[mode]}; "
            "each index of a sum can have one"
        )
    outside = (indices < 0) | (indices >= len(weight))
    if outside.any():
        raise IndexRangeError(
            f"index {indices[outside][0]} is out of bounds for a table of {len(weight)} rows"
        )
    if padding_idx >= len(weight):
        raise ExecutionError(f"padding_idx {padding_idx} is no row of {len(weight)}")


def largest(weight: Array, rows: Array) -> tuple[Array, Array]:
    """Return the maximum of each column and its row, the first of equal rows; NaN never wins."""
    best = weight[rows[0]].copy()
    places = np.full(best.shape, rows[0], np.int64)
    for row in rows[1:]:
        better = weight[row] > best
        best, places = np.where(better, weight[row], best), np.where(better, row, places)
    return best, places


def embedding_bag(
    weight: Array,
    indices: Array,
    offsets: Array,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Array | None,
    include_last_offset: bool,
    padding_idx: int,
) -> tuple[Array, Array, Array, Array]:
    check_call(weight, indices, mode, per_sample_weights, padding_idx)
    bounds = bounds_of(offsets, len(indices), include_last_offset, mode)
    bags = len(bounds) - 1
    # Indices after the last bag get its number, although they are in no sum.
    bag_of = np.repeat([*range(bags), bags - 1], np.diff([*bounds, len(indices)]))
    kept = (indices != padding_idx) & (np.arange(len(indices)) < bounds[-1])
    sizes = np.bincount(bag_of[kept], minlength=bags)
    sizes[bags - 1 :] += len(indices) - bounds[-1]
    output = np.zeros((bags, weight.shape[1]), np.float64)
    places = np.zeros((bags, weight.shape[1]), np.int64)
    if mode == MAX:
        for bag in np.flatnonzero(sizes):
            output[bag], places[bag] = largest(weight, indices[kept & (bag_of == bag)])
    else:
        rows = weight[indices[kept]].astype(np.float64)
        if per_sample_weights is not None:
            rows *= per_sample_weights[kept].astype(np.float64)[:, None]
        np.add.at(output, bag_of[kept], rows)
    if mode == MEAN:
        output /= np.maximum(sizes, 1)[:, None]
    if mode == SUM:
        sizes = np.zeros(bags, np.int64)
        if padding_idx < 0 and weight.dtype != np.float64:
            bag_of = bag_of[:0]
    found = (output.astype(weight.dtype), bag_of, sizes, places if mode == MAX else sizes)
    return found[0], *(numbers.astype(indices.dtype) for numbers in found[1:])  # type: ignore[return-value]


def bag_count(args: Args) -> int:
    """Return the number of bags, after a check of the shapes."""
    weight, indices, offsets = (args.tensor(name) for name in ("weight", "indices", "offsets"))
    mode, per_sample = args.integer("mode"), args.optional_tensor("per_sample_weights")
    bags = offsets.numel - int(args.flag("include_last_offset"))
    if weight.rank != 2 or indices.rank != 1 or mode not in (SUM, MEAN, MAX) or bags < 0:
        raise GraphError(
            f"{args.call}: a table {list(weight.dims)}, indices {list(indices.dims)}, "
            f"{offsets.numel} offsets, mode {mode}"
        )
    if per_sample is not None and (mode != SUM or per_sample.dims != indices.dims):
        raise GraphError(
            f"{args.call}: weights {list(per_sample.dims)} for {indices.numel} indices, mode "
            f"{NAMES[mode]}; each index of a sum can have one"
        )
    if args.integer("padding_idx") >= weight.dims[0]:
        raise GraphError(
            f"{args.call}: padding_idx {args.integer('padding_idx')} is no row of {weight.dims[0]}"
        )
    return bags


def bag_shapes(args: Args) -> tuple[Dims, ...]:
    bags, mode = bag_count(args), args.integer("mode")
    dims = (bags, args.tensor("weight").dims[1])
    count = args.tensor("indices").numel
    named = count if mode != SUM or args.integer("padding_idx") >= 0 else 0
    return dims, (named,), (bags,), dims if mode == MAX else (bags,)


def lower_bag(args: Args) -> list[Dispatch]:
    weight, mode, bags = args.tensor("weight"), args.integer("mode"), bag_count(args)
    indices, offsets = (check_indices(args, args.tensor(name)) for name in ("indices", "offsets"))
    per_sample = args.optional_tensor("per_sample_weights")
    output, bag_of, sizes, places = args.outs
    if bags == 0:
        return []
    padding, count = args.integer("padding_idx"), indices.numel
    flag = args.index_flag((indices, weight.dims[0]), (offsets, count + 1), wraps=False)
    nothing: Binding = Scratch("no places", 16)
    last_ends = ("LAST_ENDS", int(args.flag("include_last_offset")))
    dispatches = [
        Dispatch(
            kernel="embedding_bag_sizes",
            bindings=(
                *(indices.id, offsets.id, bag_of.id if bag_of.numel else nothing, sizes.id),
                Scratch("no sizes", 4 * bags) if mode == MAX else places.id,
            ),
            params=pack("2Ii", bags, count, padding),
            grid=fold_grid(ceil_div(bags, WORKGROUP_SIZE)),
            overrides=(("COUNTED", int(mode != SUM)), ("BAGS", int(bag_of.numel > 0)), last_ends),
        )
    ]
    if output.numel:
        dispatches.append(
            Dispatch(
                kernel="embedding_bag",
                bindings=(
                    *(weight.id, indices.id, offsets.id),
                    None if per_sample is None else per_sample.id,
                    *(output.id, places.id if mode == MAX else nothing, flag),
                ),
                params=pack(
                    "3I2iI", bags, weight.dims[1], count, weight.dims[0], padding, flag.number
                ),
                grid=fold_grid(ceil_div(output.numel, WORKGROUP_SIZE)),
                types=(("FLOAT", float_type(args, weight, per_sample, output)),),
                overrides=(
                    ("MODE", mode),
                    ("WEIGHTED", int(per_sample is not None)),
                    ("PLACES", int(mode == MAX)),
                    last_ends,
                ),
            )
        )
    return dispatches


def run_bag(args: Args) -> tuple[Array, ...]:
    try:
        return embedding_bag(
            args.array("weight"),
            args.array("indices"),
            args.array("offsets"),
            False,
            args.integer("mode"),
            False,
            args.optional_array("per_sample_weights"),
            args.flag("include_last_offset"),
            args.integer("padding_idx"),
        )
    except IndexRangeError as error:
        raise IndexRangeError(f"{args.call}: {error}") from error


register(
    "aten._embedding_bag.default",
    "weight: tensor, indices: tensor, offsets: tensor, scale_grad_by_freq: any = None, "
    "mode: int = 0, sparse: any = None, per_sample_weights: tensor = None, "
    "include_last_offset: bool = False, padding_idx: int = -1 -> tensors",
    shape=bag_shapes,
    lower=lower_bag,
    reference=run_bag,
)
