"""Kernels that move elements unchanged: copies, other shapes, slices, concatenation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from webpte.engine.portable.registry import MOVED, OutSpec, register, register_op
from webpte.engine.shapes import normalize_dim, normalize_index
from webpte.errors import ExecutionError

Array = np.ndarray

# kernel: (parameters, equivalent op of delegates)
SAME_AS_OP = {
    "aten::cat.out": ("tensors, dim", "aten.cat.default"),
    "aten::expand_copy.out": ("self, size, implicit", "aten.expand_copy.default"),
    "aten::flip.out": ("self, dims", "aten.flip.default"),
    "aten::diagonal_copy.out": ("self, offset, dim1, dim2", "aten.diagonal_copy.default"),
    "aten::permute_copy.out": ("self, dims", "aten.permute_copy.default"),
    "aten::pixel_shuffle.out": ("self, upscale_factor", "aten.pixel_shuffle.default"),
    "aten::repeat.out": ("self, repeats", "aten.repeat.default"),
    "aten::select_copy.int_out": ("self, dim, index", "aten.select_copy.int"),
    "aten::slice_copy.Tensor_out": ("self, dim, start, end, step", "aten.slice_copy.Tensor"),
    "aten::squeeze_copy.dims_out": ("self, dim", "aten.squeeze_copy.dims"),
    "aten::t_copy.out": ("self", "aten.t_copy.default"),
    "aten::unfold_copy.out": ("self, dimension, size, step", "aten.unfold_copy.default"),
    "aten::unsqueeze_copy.out": ("self, dim", "aten.unsqueeze_copy.default"),
    "aten::view_copy.out": ("self, size", "aten.view_copy.default"),
}

# Copies; layouts in memory do not matter, because arrays are in logical order here.
COPIES = {
    "aten::alias_copy.out": "self",
    "aten::clone.out": "self, memory_format",
    "aten::detach_copy.out": "self",
    "aten::lift_fresh_copy.out": "self",
    "dim_order_ops::_clone_dim_order.out": "self, non_blocking, dim_order",
    "et_copy::_d2h_copy.out": "self",
    "et_copy::_h2d_copy.out": "self",
}
CASTS = {
    "aten::_to_copy.out": "self, non_blocking, memory_format",
    "dim_order_ops::_to_dim_order_copy.out": "self, non_blocking, dim_order",
}


def cast(out: OutSpec, x: Array, *_: Any) -> Array:
    return x.astype(out.dtype.numpy)


def copy_into(out: OutSpec, x: Array, source: Array, non_blocking: bool) -> Array:
    """Return a copy even if nothing changes: the next call may start with it and mutate it."""
    unwritten = source.shape if out.unbounded else out.sizes
    shape = unwritten if x is None else x.shape
    return np.array(np.broadcast_to(source, shape), dtype=out.dtype.numpy)


# Shapes


def squeeze(x: Array, dim: int | None = None) -> Array:
    if dim is None:
        return x.squeeze()
    axis = normalize_dim(dim, x.ndim)
    return x.squeeze(axis) if x.ndim and x.shape[axis] == 1 else x


def transpose(x: Array, dim0: int, dim1: int) -> Array:
    if x.ndim == 0:
        return x
    return x.swapaxes(normalize_dim(dim0, x.ndim), normalize_dim(dim1, x.ndim))


def pixel_unshuffle(x: Array, factor: int) -> Array:
    *batch, channels, height, width = x.shape
    if factor < 1 or height % factor or width % factor:
        raise ExecutionError(f"{list(x.shape)} has no blocks of {factor} x {factor}")
    h, w = height // factor, width // factor
    blocks = x.reshape(-1, channels, h, factor, w, factor).transpose(0, 1, 3, 5, 2, 4)
    return blocks.reshape(*batch, channels * factor * factor, h, w)


def as_strided(x: Array, size: Sequence[int], stride: Sequence[int], offset: int | None) -> Array:
    """Return a strided view as PyTorch does: strides and offset count dense elements."""
    start = offset or 0
    last = start + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if min(size, default=1) > 0 and not 0 <= start <= last < x.size:
        raise ExecutionError(f"elements {start} to {last} of a tensor that has {x.size}")
    flat = np.ascontiguousarray(x).reshape(-1)[start:]
    steps = [step * x.itemsize for step in stride]
    return np.lib.stride_tricks.as_strided(flat, tuple(size), steps).copy()


def diagonal_scatter(x: Array, source: Array, offset: int, dim1: int, dim2: int) -> Array:
    result = x.copy()
    axes = (normalize_dim(dim, x.ndim) for dim in (dim1, dim2))
    places = np.diagonal(np.arange(x.size).reshape(x.shape), offset, *axes)
    result.reshape(-1)[places] = source
    return result


# Parts


def narrow(x: Array, dim: int, start: int, length: int) -> Array:
    axis = normalize_dim(dim, x.ndim)
    first = start + x.shape[axis] if start < 0 else start
    if not 0 <= first <= first + length <= x.shape[axis]:
        raise ExecutionError(f"{length} elements from {start} of a dim of size {x.shape[axis]}")
    return x[(slice(None),) * axis + (slice(first, first + length),)]


def split(x: Array, sizes: Sequence[int], dim: int) -> list[Array]:
    axis = normalize_dim(dim, x.ndim)
    if sum(sizes) != x.shape[axis] or min(sizes, default=0) < 0:
        raise ExecutionError(f"{list(sizes)} does not split a dim of size {x.shape[axis]}")
    return np.split(x, list(accumulate(sizes))[:-1], axis)


def split_evenly(x: Array, size: int, dim: int) -> list[Array]:
    length = x.shape[normalize_dim(dim, x.ndim)]
    if size < 1 and length:
        raise ExecutionError(f"a split into parts of {size} is not possible")
    sizes = [min(size, length - start) for start in range(0, length, size)] if length else [0]
    return split(x, sizes, dim)


def unbind(x: Array, dim: int) -> list[Array]:
    return list(np.moveaxis(x, normalize_dim(dim, x.ndim), 0))


# Joined tensors


def stack(tensors: Sequence[Array], dim: int) -> Array:
    return np.stack(tensors, normalize_dim(dim, tensors[0].ndim + 1))


def roll(x: Array, shifts: Sequence[int], dims: Sequence[int]) -> Array:
    if not dims:
        return np.roll(x, shifts[0])
    return np.roll(x, tuple(shifts), tuple(dims)) if x.ndim else x


def triangle(upper: bool, x: Array, offset: int) -> Array:
    return np.triu(x, offset) if upper else np.tril(x, offset)


# Parts written to


def slice_of(
    x: Array, dim: int, start: int | None, end: int | None, step: int
) -> tuple[slice, ...]:
    return (slice(None),) * normalize_dim(dim, x.ndim) + (slice(start, end, step),)


def slice_scatter(
    x: Array, source: Array, dim: int, start: int | None, end: int | None, step: int
) -> Array:
    result, part = x.copy(), slice_of(x, dim, start, end, step)
    if result[part].shape != source.shape:
        raise ExecutionError(f"{list(source.shape)} does not fit into {list(result[part].shape)}")
    result[part] = source
    return result


def select_scatter(x: Array, source: Array, dim: int, index: int) -> Array:
    axis = normalize_dim(dim, x.ndim)
    place = normalize_index(index, x.shape[axis])
    expanded = np.expand_dims(source, axis)
    return slice_scatter(x, expanded, axis, place, place + 1, 1)


for _name, (_parameters, _op) in SAME_AS_OP.items():
    register_op(_name, _parameters, _op, notes=f"`{_op}`", types=MOVED)
register_op(
    "aten::split_with_sizes_copy.out",
    "self, split_sizes, dim",
    "aten.split_with_sizes_copy.default",
    list_output=True,
    notes="`aten.split_with_sizes_copy.default`",
    types=MOVED,
)


def only_self(x: object, *_: object) -> tuple[object, ...]:
    """Return the first argument: without a change of type, a cast is a copy."""
    return (x,)


ALIAS = "aten.alias_copy.default"
for _name, _parameters in COPIES.items():
    register(_name, _parameters, lambda x, *_: x, op=ALIAS, prepare=only_self, types=MOVED)
for _name, _parameters in CASTS.items():
    register(
        _name,
        _parameters,
        cast,
        typed=True,
        op=ALIAS,
        prepare=only_self,
        types=MOVED,
        casts=True,
    )
for _name, _in_place in (("aten::copy.out", False), ("aten::copy_", True)):
    register(
        _name,
        "self, src, non_blocking",
        copy_into,
        typed=True,
        in_place=_in_place,
        notes="in place" if _in_place else "",
        op="aten.copy.default",
        types=MOVED,
        copied="src",
    )

register(
    "aten::squeeze_copy.dim_out",
    "self, dim",
    squeeze,
    op="aten.squeeze_copy.dims",
    prepare=lambda x, dim: (x, [dim]),
    types=MOVED,
)
register("aten::squeeze_copy.out", "self", squeeze)
register("aten::transpose_copy.int_out", "self, dim0, dim1", transpose)
register("aten::pixel_unshuffle.out", "self, downscale_factor", pixel_unshuffle)
register("aten::as_strided_copy.out", "self, size, stride, storage_offset", as_strided)
register("aten::diagonal_scatter.out", "self, src, offset, dim1, dim2", diagonal_scatter)
register("aten::narrow_copy.out", "self, dim, start, length", narrow)
register("aten::split_copy.Tensor_out", "self, split_size, dim", split_evenly, list_output=True)
register("aten::unbind_copy.int_out", "self, dim", unbind, list_output=True)
register("aten::stack.out", "tensors, dim", stack)
register("aten::roll.out", "self, shifts, dims", roll)
register("aten::tril.out", "self, diagonal", lambda x, offset: triangle(False, x, offset))
register("aten::triu.out", "self, diagonal", lambda x, offset: triangle(True, x, offset))
register(
    "aten::slice_scatter.out",
    "self, src, dim, start, end, step",
    slice_scatter,
    op="aten.slice_scatter.default",
    types=MOVED,
)
register(
    "aten::select_scatter.out",
    "self, src, dim, index",
    select_scatter,
    op="aten.select_scatter.default",
    types=MOVED,
)
