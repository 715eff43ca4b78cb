"""Kernels that find, take and write elements by index tensors or masks, and kernels that sort.

A negative index counts from the end in index, index_put, index_fill and take; all others refuse
negative indices. An index out of range is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from webpte.engine.portable.registry import FLOATS, INDICES, MOVED, OutSpec, register, register_op
from webpte.engine.shapes import normalize_dim
from webpte.errors import ExecutionError

Array = np.ndarray

# kernel: (parameters, equivalent op of delegates)
SAME_AS_OP = {
    "aten::embedding.out": (
        "weight, indices, padding_idx, scale_grad_by_freq, sparse",
        "aten.embedding.default",
    ),
    "aten::gather.out": ("self, dim, index, sparse_grad", "aten.gather.default"),
    "aten::index_select.out": ("self, dim, index", "aten.index_select.default"),
}


# Index tensors for several dims


def key_of(indices: Sequence[Array | None]) -> Any:
    """Return a NumPy key; None stands for a whole dim, and bytes are masks, as in old PyTorch."""
    return tuple(
        slice(None)
        if index is None
        else index.astype(np.bool_)
        if index.dtype == np.uint8
        else index
        for index in indices
    )


def index(x: Array, indices: Sequence[Array | None]) -> Array:
    return x[key_of(indices)]


def index_put(
    x: Array | None, indices: Sequence[Array | None], values: Array, accumulate: bool
) -> Array:
    if x is None:
        raise ExecutionError("nothing has written the tensor that it changes")
    result, key = x.copy(), key_of(indices)
    if accumulate:
        np.add.at(result, key, values)
    else:
        result[key] = values
    return result


# Masks: the output's size depends on the elements


def masked_select(x: Array, mask: Array) -> Array:
    x, mask = np.broadcast_arrays(x, mask)
    return x[mask.astype(np.bool_)]


def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    wanted = np.broadcast_to(mask, np.broadcast_shapes(x.shape, mask.shape)).astype(np.bool_)
    result, count = np.broadcast_to(x, wanted.shape).copy(), int(wanted.sum())
    if source.size < count:
        raise ExecutionError(f"{count} elements are wanted, {source.size} given")
    result[wanted] = source.reshape(-1)[:count]
    return result


def repeat_interleave(repeats: Array, output_size: int | None) -> Array:
    return np.repeat(np.arange(repeats.size, dtype=repeats.dtype), repeats.reshape(-1))


# Order


def order_along(x: Array, dim: int, descending: bool) -> Array:
    """Return the indices that sort a dim; the sort is stable, and NaN counts as the largest."""
    axis = normalize_dim(dim, x.ndim)
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    last = x.shape[axis] - 1
    return np.flip(last - np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)


def sort(x: Array, dim: int, descending: bool) -> tuple[Array, Array]:
    rows = np.atleast_1d(x)
    order = order_along(rows, dim, descending)
    values = np.take_along_axis(rows, order, normalize_dim(dim, rows.ndim))
    return values.reshape(x.shape), order.reshape(x.shape)


def sort_stable(x: Array, stable: bool | None, dim: int, descending: bool) -> tuple[Array, Array]:
    return sort(x, dim, descending)


def top_k(x: Array, k: int, dim: int, largest: bool, in_order: bool) -> tuple[Array, Array]:
    rows = np.atleast_1d(x)
    axis = normalize_dim(dim, rows.ndim)
    if not 0 <= k <= rows.shape[axis]:
        raise ExecutionError(f"{k} of {rows.shape[axis]} elements")
    order = order_along(rows, axis, largest)[(slice(None),) * axis + (slice(k),)]
    values = np.take_along_axis(rows, order, axis)
    return (values, order) if x.ndim else (values.reshape(()), order.reshape(()))


def median(x: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """Return the lower median and its index; NaN if any element is NaN."""
    rows = np.atleast_1d(x)
    axis = normalize_dim(dim, rows.ndim)
    size = rows.shape[axis]
    if size == 0:
        raise ExecutionError(f"{list(x.shape)} has no elements along dim {dim}")
    order = order_along(rows, axis, descending=False)
    numbers = np.count_nonzero(rows == rows, axis=axis, keepdims=True)  # NaNs come after them
    middle = np.where(numbers < size, numbers, (size - 1) // 2)
    places = np.take_along_axis(order, middle, axis)
    values = np.take_along_axis(rows, places, axis)
    if x.ndim == 0:
        return values.reshape(()), places.reshape(())
    return (values, places) if keepdim else (values.squeeze(axis), places.squeeze(axis))


def kth_value(x: Array, k: int, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """Return the k-th smallest element and its index."""
    if k < 1:
        raise ExecutionError(f"k={k} is not valid; elements count from 1")
    results = top_k(x, k, dim, False, True)
    if x.ndim == 0:
        return results
    axis = normalize_dim(dim, x.ndim)
    values, places = (result.take([k - 1], axis) for result in results)
    return (values, places) if keepdim else (values.squeeze(axis), places.squeeze(axis))


def bucketize(
    out: OutSpec, x: Array | float, boundaries: Array, out_int32: bool, right: bool
) -> Array:
    side = "right" if right else "left"
    return np.asarray(np.searchsorted(boundaries, x, side=side)).astype(out.dtype.numpy)  # type: ignore[call-overload]


def search_sorted(
    out: OutSpec,
    rows: Array,
    x: Array,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: Array | None,
) -> Array:
    """Search for each row of `x` in the same row of `rows`, or in its only row."""
    if sorter is not None:
        rows = np.take_along_axis(rows, sorter, -1)
    right = right or side == "right"
    if rows.ndim == 1:
        return bucketize(out, x, rows, out_int32, right)
    lists, items = rows.reshape(-1, rows.shape[-1]), x.reshape(-1, x.shape[-1])
    pairs = zip(lists, items, strict=True)
    found = [bucketize(out, item, row, out_int32, right) for row, item in pairs]
    return np.stack(found).reshape(x.shape)


NUMBERS = FLOATS | {"int32"}
PICKED = {"index": INDICES, "indices": INDICES}
for _name, (_parameters, _op) in SAME_AS_OP.items():
    register_op(_name, _parameters, _op, notes=f"`{_op}`", types=MOVED, apart=PICKED)

PUT = "self, indices, values, accumulate"
register(
    "aten::index.Tensor_out",
    "self, indices",
    index,
    op="aten.index.Tensor",
    types=MOVED,
    apart=PICKED,
)
for _name, _in_place in (("aten::index_put.out", False), ("aten::index_put_", True)):
    register(
        _name,
        PUT,
        index_put,
        in_place=_in_place,
        notes="in place" if _in_place else "",
        op="aten.index_put.default",
        types=NUMBERS,
        apart=PICKED,
    )
ALONG = "self, dim, index"
for _name, _parameters, _op in (
    ("scatter.src_out", f"{ALONG}, src", "scatter.src"),
    ("scatter.value_out", f"{ALONG}, value", "scatter.value"),
    ("scatter_add.out", f"{ALONG}, src", "scatter_add.default"),
    ("scatter_reduce.two_out", f"{ALONG}, src, reduce, include_self", "scatter_reduce.two"),
    ("index_add.out", f"{ALONG}, source, alpha", "index_add.default"),
    ("index_copy.out", f"{ALONG}, source", "index_copy.default"),
    ("index_fill.int_Scalar_out", f"{ALONG}, value", "index_fill.int_Scalar"),
):
    register_op(
        f"aten::{_name}",
        _parameters,
        f"aten.{_op}",
        types=NUMBERS,
        apart=PICKED,
    )
register("aten::take.out", "self, index", np.take)

register("aten::masked_select.out", "self, mask", masked_select)
register("aten::masked_scatter.out", "self, mask, source", masked_scatter)
register("aten::nonzero.out", "self", np.argwhere)
register("aten::repeat_interleave.Tensor_out", "repeats, output_size", repeat_interleave)

for _name, _parameters, _function, _op in (
    ("topk.values", "self, k, dim, largest, sorted", top_k, "aten.topk.default"),
    ("kthvalue.values", "self, k, dim, keepdim", kth_value, "aten.kthvalue.default"),
    ("sort.values", "self, dim, descending", sort, "aten.sort.default"),
    ("sort.values_stable", "self, stable, dim, descending", sort_stable, "aten.sort.stable"),
):
    register(
        f"aten::{_name}",
        _parameters,
        _function,
        outputs=2,
        op=_op,
        types=NUMBERS,
        apart={"out1": INDICES},
    )
register(
    "aten::argsort.stable_out",
    "self, stable, dim, descending",
    lambda *args: sort_stable(*args)[1],
    op="aten.argsort.stable",
    types=NUMBERS,
    apart={"out": INDICES},
)
register(
    "aten::median.out",
    "self",
    lambda x: median(x.reshape(-1), 0, False)[0],
    op="aten.median.default",
)
register(
    "aten::median.dim_values",
    "self, dim, keepdim",
    median,
    outputs=2,
    op="aten.median.dim",
    apart={"out1": INDICES},
)

register("aten::bucketize.Tensor_out", "self, boundaries, out_int32, right", bucketize, typed=True)
register(
    "aten::searchsorted.Tensor_out",
    "sorted_sequence, self, out_int32, right, side, sorter",
    search_sorted,
    typed=True,
)
