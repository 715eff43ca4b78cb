"""Kernels that create a tensor from a shape and numbers; the output has the element type."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from webpte.engine.portable.registry import OutSpec, register
from webpte.errors import ExecutionError

Array = np.ndarray


def full(out: OutSpec, size: Sequence[int], value: float) -> Array:
    return np.full(tuple(size), np.asarray(value).astype(out.dtype.numpy))


def full_like(out: OutSpec, x: Array, value: float, *_: Any) -> Array:
    return full(out, x.shape, value)


def fill_with_tensor(out: OutSpec, x: Array, value: Array) -> Array:
    if value.size != 1:
        raise ExecutionError(f"fills with one element, not {list(value.shape)}")
    return full(out, x.shape, value.item())


def arange(out: OutSpec, start: float, end: float, step: float) -> Array:
    """Return a range; integer outputs truncate the arguments first, floats compute in float64."""
    dtype = out.dtype.numpy
    if dtype.kind != "f":
        start, end, step = int(start), int(end), int(step)
    if step == 0 or (end - start) * step < 0:
        raise ExecutionError(f"cannot count from {start} to {end} in steps of {step}")
    if isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
        count = -((start - end) // step)
    else:
        count = math.ceil((end - start) / step)
    kind = np.float64 if dtype.kind == "f" else np.int64
    places: Array = np.arange(count, dtype=kind)
    return (start + places * step).astype(dtype)


def linspace(out: OutSpec, start: float, end: float, steps: int) -> Array:
    return np.linspace(start, end, steps).astype(out.dtype.numpy)


def triangle_indices(lower: bool) -> Callable[[OutSpec, int, int, int], Array]:
    """Return a kernel for the rows and columns of a triangle's elements, row by row."""

    def indices(out: OutSpec, rows: int, columns: int, offset: int) -> Array:
        everything = np.ones((rows, columns), np.bool_)
        chosen = np.tril(everything, offset) if lower else np.triu(everything, offset)
        return np.stack(np.nonzero(chosen)).astype(out.dtype.numpy)

    return indices


# Random numbers: PyTorch's own would need its generator, so these differ.


def uniform(out: OutSpec, size: Sequence[int]) -> Array:
    return np.random.default_rng().random(tuple(size)).astype(out.dtype.numpy)


def normal(out: OutSpec, size: Sequence[int]) -> Array:
    return np.random.default_rng().standard_normal(tuple(size)).astype(out.dtype.numpy)


def dropout(x: Array, p: float, train: bool | None) -> tuple[Array, Array]:
    if train is False:
        return x, np.ones(x.shape, np.bool_)
    kept = np.random.default_rng().random(x.shape) >= p
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return (x * kept * scale).astype(x.dtype), kept


RANDOM = "other numbers than PyTorch's"
MEMORY = "zeros, where PyTorch leaves what was there"

register("aten::full.out", "size, fill_value", full, typed=True)
register(
    "aten::full_like.out",
    "self, fill_value, memory_format",
    full_like,
    typed=True,
    op="aten.full_like.default",  # attention gives zeros to rows that a mask hides
    prepare=lambda x, value, *_: (x, value),
)
register("aten::fill.Scalar_out", "self, value", full_like, typed=True)
register("aten::fill.Tensor_out", "self, value", fill_with_tensor, typed=True)
register("aten::scalar_tensor.out", "s", lambda out, s: full(out, (), s), typed=True)

for _name, _value in (("zeros", 0), ("ones", 1)):
    register(
        f"aten::{_name}.out",
        "size",
        lambda out, size, value=_value: full(out, size, value),
        typed=True,
    )
    register(
        f"aten::{_name}_like.out",
        "self, memory_format",
        lambda out, x, _, value=_value: full(out, x.shape, value),
        typed=True,
    )
for _name, _parameters in (
    ("aten::empty.out", "size, memory_format"),
    ("aten::empty_permuted.out", "size, physical_layout"),
    ("dim_order_ops::_empty_dim_order.out", "size, dim_order"),
):
    register(_name, _parameters, lambda out, size, _: full(out, size, 0), typed=True, notes=MEMORY)
register(
    "aten::empty_like.out",
    "self, memory_format",
    lambda out, x, _: full(out, x.shape, 0),
    typed=True,
    notes=MEMORY,
)

register("aten::arange.out", "end", lambda out, end: arange(out, 0, end, 1), typed=True)
register("aten::arange.start_out", "start, end, step", arange, typed=True)
register("aten::linspace.out", "start, end, steps", linspace, typed=True)
register("aten::eye.out", "n", lambda out, n: np.eye(n, dtype=out.dtype.numpy), typed=True)
for _name in ("tril", "triu"):
    register(
        f"aten::{_name}_indices.out",
        "row, col, offset",
        triangle_indices(_name == "tril"),
        typed=True,
    )

register("aten::rand.out", "size", uniform, typed=True, notes=RANDOM, draws=True)
register("aten::randn.out", "size", normal, typed=True, notes=RANDOM, draws=True)
register(
    "aten::native_dropout.out",
    "input, p, train",
    dropout,
    outputs=2,
    notes=RANDOM,
    draws=True,
)
