"""Kernels of numbers: sizes of live tensors, arithmetic with them, and the rows of loops.

Their output is a number in the method's value table, and appears only once among the arguments.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from webpte.engine.portable.registry import register
from webpte.engine.shapes import contiguous_strides, normalize_dim
from webpte.errors import ExecutionError

Array = np.ndarray
Number = bool | int | float

TWO_NUMBERS: dict[str, Callable[[Any, Any], Number]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "truediv": operator.truediv,
    "mod": operator.mod,
    "eq": operator.eq,
    "gt": operator.gt,
    "lt": operator.lt,
    "ge": operator.ge,
    "le": operator.le,
    "sym_max": max,
    "sym_min": min,
}

ONE_NUMBER: dict[str, Callable[[Any], Number]] = {
    "neg": operator.neg,
    "ceil": math.ceil,
    "round": round,
    "trunc": math.trunc,
    "sym_float": float,
    "sym_int": int,
    "sym_not": operator.not_,
}


def size_along(x: Array, dim: int) -> int:
    return x.shape[normalize_dim(dim, x.ndim)]


def stride_along(x: Array, dim: int) -> int:
    return contiguous_strides(x.shape)[normalize_dim(dim, x.ndim)]


def only_element(x: Array) -> Number:
    if x.size != 1:
        raise ExecutionError(f"one element is needed, not {list(x.shape)}")
    return x.item()


def view(x: Array, size: Sequence[int]) -> Array:
    return x.reshape(tuple(size))


def append(rows: Array | None, row: Array, place: int) -> Array:
    """Append a row to the rows of a loop; its first iteration starts without rows."""
    if place == 0:
        return row[None].copy()
    if rows is None or rows.shape[0] < place:
        raise ExecutionError(f"row {place} is written before the rows that precede it")
    return np.concatenate([rows[:place], row[None]])


for _name, _two in TWO_NUMBERS.items():
    register(f"executorch_prim::{_name}.Scalar", "a, b", _two)
for _name in ("floordiv", "mod"):  # spellings of older exports
    register(f"executorch_prim::{_name}.int", "a, b", TWO_NUMBERS[_name])
for _name, _one in ONE_NUMBER.items():
    register(f"executorch_prim::{_name}.Scalar", "a", _one)
register("executorch_prim::sym_ite.Scalar", "b, t, f", lambda b, t, f: t if b else f)

register("aten::sym_size.int", "self, dim", size_along)
register("aten::sym_stride.int", "self, dim", stride_along)
register("aten::sym_numel", "self", lambda x: x.size)
register("aten::_local_scalar_dense", "self", only_element)

register("executorch_prim::et_view.default", "self, size", view, op="aten.view_copy.default")
register(
    "executorch_prim::et_copy_index.tensor",
    "copy_to, copy_from, index",
    append,
    in_place=True,
    notes="in place: the rows of a loop, one per turn",
)
