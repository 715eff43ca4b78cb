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

from webpte.engine.portable.registry import register
from webpte.errors import ExecutionError

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
        raise ExecutionError(f"offsets {starts} do not cut {count} indices into bags from 0 on")
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
        raise ExecutionError(
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


register(
    "aten::_embedding_bag.out",
    "weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, "
    "include_last_offset, padding_idx",
    embedding_bag,
    outputs=4,
)
