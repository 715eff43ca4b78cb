"""PyTorch's type promotion: the type in which a kernel computes.

Tensors with dims decide first, then tensors of rank 0, then Python numbers; a later operand counts
only if it is of a higher kind (bool, integer, float). So float32 times 2.5 stays float32 and int64
times 2.5 becomes float32, PyTorch's default type, where NumPy would return float64. Arrays of
bfloat16 are of float32 here, the type that their kernels compute in; outputs are rounded.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

Array = np.ndarray
DT = np.dtype[Any]
Operand = Array | bool | int | float

DEFAULT_FLOAT = np.dtype(np.float32)


def promote(a: DT, b: DT) -> DT:
    """Return the common type of two tensors."""
    if (a.kind == "f") != (b.kind == "f"):
        return a if a.kind == "f" else b
    return np.promote_types(a, b)


def _combine(higher: DT | None, lower: DT | None) -> DT | None:
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.kind == "f":
        return higher
    return promote(higher, lower) if higher.kind == "b" or lower.kind == "f" else higher


def _number_type(number: float) -> DT:
    if isinstance(number, bool):
        return np.dtype(np.bool_)
    return np.dtype(np.int64) if isinstance(number, int) else DEFAULT_FLOAT


def result_type(*operands: Operand | None) -> DT:
    """Return the type in which to compute arrays and Python numbers; None is ignored."""
    groups: tuple[list[DT], list[DT], list[DT]] = ([], [], [])
    for operand in operands:
        if isinstance(operand, np.ndarray):
            groups[0 if operand.ndim else 1].append(operand.dtype)
        elif operand is not None:
            groups[2].append(_number_type(operand))
    with_dims, rank0, numbers = (reduce(promote, group) if group else None for group in groups)
    found = _combine(with_dims, _combine(rank0, numbers))
    return DEFAULT_FLOAT if found is None else found


def float_type(dtype: DT) -> DT:
    """Return a float type unchanged, and the default float type for integers."""
    return dtype if dtype.kind == "f" else DEFAULT_FLOAT


def working_type(dtype: DT) -> DT:
    """Return the type in which to compute: float32 for f16, rounded once at the end."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def convert(operand: Operand, dtype: DT) -> Array:
    """Convert an array or number to the given type."""
    return np.asarray(operand).astype(dtype, copy=False)
