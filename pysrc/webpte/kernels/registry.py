"""Operators that run outside of delegates, in NumPy: the table from names to kernels.

An instruction names an operator such as `aten::mean.out` and gives the ids of its arguments, of
its outputs, and of its outputs once more. A kernel gets Python values (arrays, numbers, lists,
None) and what the file says of its outputs, and returns arrays; the machine checks and stores them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from webpte.dtypes import DType
from webpte.errors import ExecutionError
from webpte.kernels.eager import run_op
from webpte.ops import lookup
from webpte.shapes import Dims


@dataclass(frozen=True)
class OutSpec:
    """What the file says of an output: `sizes` are exact, or upper bounds if `dynamic`."""

    dtype: DType
    sizes: Dims
    dynamic: bool


Run = Callable[[Sequence[Any], Sequence[OutSpec]], Sequence[Any]]


@dataclass(frozen=True)
class Kernel:
    """One operator. `arguments` counts those of its schema, without outputs.

    `in_place` kernels have no outputs of their own: their result replaces their first argument.
    """

    name: str
    arguments: int
    outputs: int
    run: Run
    in_place: bool = False


_REGISTRY: dict[str, Kernel] = {}


def register(kernel: Kernel) -> None:
    if kernel.name in _REGISTRY:
        raise ValueError(f"{kernel.name} is registered twice")
    _REGISTRY[kernel.name] = kernel


def register_function(
    name: str, arguments: int, function: Callable[..., Any], outputs: int = 1
) -> None:
    """A kernel that is a plain function of its arguments and returns one array, or a tuple."""

    def run(values: Sequence[Any], outs: Sequence[OutSpec]) -> Sequence[Any]:
        result = function(*values)
        return result if outputs != 1 else (result,)

    register(Kernel(name, arguments, outputs, run))


def register_op(name: str, op_name: str, arguments: int) -> None:
    """A kernel that means the same as an operator of the delegates: it runs its reference.

    Arguments are the op's, in order; those that the op has and the kernel has not are absent.
    """
    op = lookup(op_name)
    if op is None:
        raise ValueError(f"{name}: there is no op {op_name}")
    outputs = 1

    def run(values: Sequence[Any], outs: Sequence[OutSpec]) -> Sequence[Any]:
        return run_op(op_name, values, [(out.dtype, out.sizes) for out in outs])

    register(Kernel(name, arguments, outputs, run))


def lookup_kernel(name: str) -> Kernel | None:
    return _REGISTRY.get(name)


def kernel_names() -> list[str]:
    return sorted(_REGISTRY)


def fit_output(name: str, result: Any, out: OutSpec) -> np.ndarray:
    """A kernel's result as its output holds it; raises where it does not fit."""
    array = np.asarray(result)
    target = out.dtype.numpy
    if not np.can_cast(array.dtype, target, "same_kind") and target != np.bool_:
        raise ExecutionError(f"{name}: a result of {array.dtype} does not fit into {target}")
    if array.ndim != len(out.sizes):
        raise ExecutionError(
            f"{name}: a result of shape {list(array.shape)} for an output of rank {len(out.sizes)}"
        )
    fits = (
        all(size <= limit for size, limit in zip(array.shape, out.sizes, strict=True))
        if out.dynamic
        else array.shape == out.sizes
    )
    if not fits:
        bound = "at most " if out.dynamic else ""
        raise ExecutionError(
            f"{name}: a result of shape {list(array.shape)} for an output of "
            f"{bound}{list(out.sizes)}"
        )
    return array.astype(target, copy=False)
