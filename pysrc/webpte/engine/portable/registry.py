"""Operators that run outside of delegates, in NumPy: the table from names to kernels.

An instruction names an operator such as `aten::mean.out` and has the ids of its arguments and its
outputs, and its outputs' ids a second time. A kernel gets Python values (arrays, numbers, lists,
None) and the specs of its outputs, and returns arrays; the runtime checks and stores them.

A family module calls one of the `register` functions once per table row. A kernel neither keeps nor
changes the arrays that it is given, but it may return a view of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from webpte.engine.dtypes import INT32_MAX, DType
from webpte.engine.ops import lookup
from webpte.engine.portable.eager import run_op
from webpte.engine.shapes import Dims, fits
from webpte.errors import ExecutionError, WebpteError, retold


@dataclass(frozen=True)
class OutSpec:
    """An output by the file's declaration.

    `sizes` are exact, or the largest if it is `dynamic` (it has at most as many elements), or only
    a guess if it is `unbounded`.
    """

    dtype: DType
    sizes: Dims
    dynamic: bool
    unbounded: bool = False

    @property
    def limits(self) -> Dims:
        """The largest sizes."""
        return tuple(INT32_MAX for _ in self.sizes) if self.unbounded else self.sizes


FLOATS = frozenset({"float32", "float16", "bfloat16"})
# Kernels that only move elements work on the GPU for all types that fit there; 64-bit types do not.
MOVED = FLOATS | {"bool", "uint8", "int8", "int32"}
# 64-bit indices fit, too: an index beyond 32 bits is out of range for every tensor, which is an
# error.
INDICES = frozenset({"int32", "int64"})
TRUTH = frozenset({"bool"})

Run = Callable[[Sequence[Any], Sequence[OutSpec]], Sequence[Any]]
Prepare = Callable[..., Sequence[Any]]
CheckConstants = Callable[[Mapping[str, np.ndarray]], None]


@dataclass(frozen=True)
class PortableKernel:
    """A single operator. `parameters` are the inputs of its schema.

    `in_place` kernels have no separate outputs: their result replaces their first argument, which
    is None until something has written it. A kernel that `changes` arguments returns their new
    values after its outputs; the operator of such a kernel gives only the new values. A kernel with
    `list_output` has a single output that is a list of tensors, and returns as many arrays as
    `outs` has entries.

    `op` is the equivalent operator of delegates, if any, when all tensors have the same type, a
    member of `types`; `apart` has different types for some tensors (keys are parameters, "out", or
    "out0" and so on). The operator's arguments are the kernel's, or the result of `prepare`. A
    `heavy` kernel multiplies matrices. A kernel returns the argument named in `copied` unchanged if
    the argument has the output's size. A kernel that `casts` returns its first argument in the
    output's type. `check` gets the constants among the arguments, by parameter, and raises for
    constants that only the host can handle. A kernel that `draws` gives other numbers in each call.
    """

    name: str
    parameters: tuple[str, ...]
    outputs: int
    run: Run
    in_place: bool = False
    list_output: bool = False
    notes: str = ""
    op: str | None = None
    prepare: Prepare | None = None
    heavy: bool = False
    types: frozenset[str] = FLOATS
    apart: Mapping[str, frozenset[str]] = field(default_factory=dict)
    copied: str | None = None
    casts: bool = False
    changes: tuple[str, ...] = ()
    check: CheckConstants | None = None
    draws: bool = False

    def types_of_output(self, number: int) -> frozenset[str] | None:
        """Return the types of an output that is in `apart`; None for other outputs."""
        return self.apart.get("out" if self.outputs == 1 else f"out{number}")

    @property
    def writes_arguments(self) -> bool:
        return self.in_place or bool(self.changes)

    @property
    def changed(self) -> tuple[int, ...]:
        """Places of the arguments that a call writes to."""
        if self.in_place:
            return (0,)
        return tuple(self.parameters.index(name) for name in self.changes)

    @property
    def arguments(self) -> int:
        return len(self.parameters)

    def op_arguments(self, values: Sequence[Any]) -> Sequence[Any]:
        return values if self.prepare is None else self.prepare(*values)


_REGISTRY: dict[str, PortableKernel] = {}


def _add(kernel: PortableKernel) -> None:
    if kernel.name in _REGISTRY:
        raise ValueError(f"{kernel.name} is registered twice")
    _REGISTRY[kernel.name] = kernel


def _named(name: str, run: Run) -> Run:
    """Wrap `run` so that errors name the kernel, which NumPy's messages do not."""

    def named(values: Sequence[Any], outs: Sequence[OutSpec]) -> Sequence[Any]:
        try:
            with np.errstate(all="ignore"):
                return run(values, outs)
        except ExecutionError as error:
            raise retold(error, f"{name}: {error}") from error
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
    op: str | None = None,
    prepare: Prepare | None = None,
    heavy: bool = False,
    types: frozenset[str] = FLOATS,
    apart: Mapping[str, frozenset[str]] | None = None,
    copied: str | None = None,
    casts: bool = False,
    changes: tuple[str, ...] = (),
    draws: bool = False,
) -> None:
    """Register a kernel: a function of its arguments that returns an array, or several.

    A `typed` function takes the OutSpec of its (first) output before its arguments.
    """

    def run(values: Sequence[Any], outs: Sequence[OutSpec]) -> Sequence[Any]:
        result = function(outs[0], *values) if typed else function(*values)
        return (result,) if outputs == 1 and not list_output and not changes else result

    names = tuple(filter(None, parameters.split(", ")))
    how = (
        in_place,
        list_output,
        notes,
        op,
        prepare,
        heavy,
        types,
        apart or {},
        copied,
        casts,
        changes,
    )
    _add(PortableKernel(name, names, outputs, _named(name, run), *how, draws=draws))


def register_op(
    name: str,
    parameters: str,
    op_name: str,
    *,
    outputs: int = 1,
    prepare: Prepare | None = None,
    list_output: bool = False,
    notes: str = "",
    heavy: bool = False,
    types: frozenset[str] = FLOATS,
    apart: Mapping[str, frozenset[str]] | None = None,
    check: CheckConstants | None = None,
) -> None:
    """Register a kernel that runs the reference of a delegates' operator."""
    if lookup(op_name) is None:
        raise ValueError(f"{name}: there is no op {op_name}")

    def run(values: Sequence[Any], outs: Sequence[OutSpec]) -> Sequence[Any]:
        arguments = kernel.op_arguments(values)
        results = run_op(op_name, arguments, [(out.dtype, out.limits) for out in outs])
        # References may compute in a wider type than the output's.
        return [out.dtype.cast(result) for result, out in zip(results, outs, strict=True)]

    names, named = tuple(parameters.split(", ")), _named(name, run)
    how = (False, list_output, notes, op_name, prepare, heavy, types, apart or {})
    kernel = PortableKernel(name, names, outputs, named, *how, check=check)
    _add(kernel)


def op_named_like(name: str) -> str | None:
    """Return the delegates' operator with a kernel's name and arguments, or None."""
    op = name.replace("::", ".").removesuffix("out") + "default"
    return None if lookup(op) is None else op


def lookup_kernel(name: str) -> PortableKernel | None:
    return _REGISTRY.get(name)


def kernel_names() -> list[str]:
    return sorted(_REGISTRY)


# PyTorch's order of kinds: an output takes results of its own kind and of earlier kinds.
_KINDS = {"b": 0, "i": 1, "u": 1, "f": 2}


def fit_output(name: str, result: Any, out: OutSpec) -> np.ndarray:
    """Cast a kernel's result to its output's type; raise if the result does not fit."""
    array = np.asarray(result)
    target = out.dtype.numpy
    if _KINDS.get(array.dtype.kind, 3) > _KINDS[target.kind]:
        raise ExecutionError(f"{name}: a result of {array.dtype} does not fit into {target}")
    check_shape(name, array.shape, out)
    return out.dtype.cast(array)


def check_shape(name: str, shape: Dims, out: OutSpec) -> None:
    """Raise for a result with a shape that the file does not allow for its output."""
    if len(shape) != len(out.sizes):
        raise ExecutionError(
            f"{name}: a result of shape {list(shape)} for an output of rank {len(out.sizes)}"
        )
    if not (out.unbounded or shape == out.sizes or (out.dynamic and fits(shape, out.sizes))):
        bound = "at most " if out.dynamic else ""
        raise ExecutionError(
            f"{name}: a result of shape {list(shape)} for an output of {bound}{list(out.sizes)}"
        )
