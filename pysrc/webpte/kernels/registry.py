"""Operators that run outside of delegates, in NumPy: the table from names to kernels.

An instruction names an operator such as `aten::mean.out` and gives the ids of its arguments, of
its outputs, and of its outputs once more. A kernel gets Python values (arrays, numbers, lists,
None) and what the file says of its outputs, and returns arrays; the machine checks and stores them.

A family module calls one of the `register` functions once per table row. A kernel neither keeps
nor changes the arrays that it is given, but what it returns may be a view of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from webpte.dtypes import INT32_MAX, DType
from webpte.errors import ExecutionError, WebpteError
from webpte.kernels.eager import run_op
from webpte.ops import lookup
from webpte.shapes import Dims


@dataclass(frozen=True)
class OutSpec:
    """What the file says of an output.

    `sizes` are exact, or upper bounds if it is `dynamic`, or a mere guess if it is `unbounded`.
    """

    dtype: DType
    sizes: Dims
    dynamic: bool
    unbounded: bool = False

    @property
    def limits(self) -> Dims:
        """The largest sizes."""
        return tuple(INT32_MAX for _ in self.sizes) if self.unbounded else self.sizes


Run = Callable[[Sequence[Any], Sequence[OutSpec]], Sequence[Any]]


@dataclass(frozen=True)
class Kernel:
    """One operator. `parameters` are those of its schema, without outputs.

    `in_place` kernels have no outputs of their own: their result replaces their first argument,
    which is None where nothing has written it yet. A kernel with `list_output` has a single output
    that is a list of tensors, and returns as many arrays as `outs` has entries.
    """

    name: str
    parameters: tuple[str, ...]
    outputs: int
    run: Run
    in_place: bool = False
    list_output: bool = False
    notes: str = ""

    @property
    def arguments(self) -> int:
        return len(self.parameters)


_REGISTRY: dict[str, Kernel] = {}


def _add(kernel: Kernel) -> None:
    if kernel.name in _REGISTRY:
        raise ValueError(f"{kernel.name} is registered twice")
    _REGISTRY[kernel.name] = kernel


def _named(name: str, run: Run) -> Run:
    """`run` with errors that name the kernel; NumPy's own would say neither which nor what."""

    def named(values: Sequence[Any], outs: Sequence[OutSpec]) -> Sequence[Any]:
        try:
            with np.errstate(all="ignore"):
                return run(values, outs)
        except (WebpteError, ArithmeticError, IndexError, TypeError, ValueError) as error:
            raise ExecutionError(f"{name}: {error}") from error

    return named


def register(
    name: str,
    parameters: str,
    function: Callable[..., Any],
    *,
    outputs: int = 1,
    typed: bool = False,
    in_place: bool = False,
    list_output: bool = False,
    notes: str = "",
) -> None:
    """A kernel that is a function of its arguments and returns one array, or several.

    A `typed` function takes the OutSpec of its (first) output before its arguments.
    """

    def run(values: Sequence[Any], outs: Sequence[OutSpec]) -> Sequence[Any]:
        result = function(outs[0], *values) if typed else function(*values)
        return (result,) if outputs == 1 and not list_output else result

    names = tuple(filter(None, parameters.split(", ")))
    _add(Kernel(name, names, outputs, _named(name, run), in_place, list_output, notes))


def register_op(
    name: str,
    parameters: str,
    op_name: str,
    *,
    outputs: int = 1,
    prepare: Callable[..., Sequence[Any]] | None = None,
    list_output: bool = False,
    notes: str = "",
) -> None:
    """A kernel that means the same as an operator of the delegates: it runs its reference.

    Arguments are the op's, in order, or what `prepare` makes of them.
    """
    if lookup(op_name) is None:
        raise ValueError(f"{name}: there is no op {op_name}")

    def run(values: Sequence[Any], outs: Sequence[OutSpec]) -> Sequence[Any]:
        arguments = values if prepare is None else prepare(*values)
        results = run_op(op_name, arguments, [(out.dtype, out.limits) for out in outs])
        # References may compute in a wider type than the output's.
        return [result.astype(out.dtype.numpy) for result, out in zip(results, outs, strict=True)]

    names = tuple(parameters.split(", "))
    _add(Kernel(name, names, outputs, _named(name, run), False, list_output, notes))


def lookup_kernel(name: str) -> Kernel | None:
    return _REGISTRY.get(name)


def kernel_names() -> list[str]:
    return sorted(_REGISTRY)


# How PyTorch orders kinds of types: a result may go into an output of its own kind or a later one.
_KINDS = {"b": 0, "i": 1, "u": 1, "f": 2}


def fit_output(name: str, result: Any, out: OutSpec) -> np.ndarray:
    """A kernel's result as its output holds it; raises where it does not fit."""
    array = np.asarray(result)
    target = out.dtype.numpy
    if _KINDS.get(array.dtype.kind, 3) > _KINDS[target.kind]:
        raise ExecutionError(f"{name}: a result of {array.dtype} does not fit into {target}")
    if array.ndim != len(out.sizes):
        raise ExecutionError(
            f"{name}: a result of shape {list(array.shape)} for an output of rank {len(out.sizes)}"
        )
    fits = (
        all(size <= limit for size, limit in zip(array.shape, out.limits, strict=True))
        if out.dynamic
        else array.shape == out.sizes
    )
    if not fits:
        bound = "at most " if out.dynamic else ""
        raise ExecutionError(
            f"{name}: a result of shape {list(array.shape)} for an output of "
            f"{bound}{list(out.sizes)}"
        )
    with np.errstate(all="ignore"):
        return array.astype(target, copy=False)
