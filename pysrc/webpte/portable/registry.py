"""Operators that run outside of delegates, in NumPy: the table from names to kernels.

An instruction names an operator such as `aten::mean.out` and gives the ids of its arguments, of
its outputs, and of its outputs once more. A kernel gets Python values (arrays, numbers, lists,
None) and what the file says of its outputs, and returns arrays; the machine checks and stores them.

A family module calls one of the `register` functions once per table row. A kernel neither keeps
nor changes the arrays that it is given, but what it returns may be a view of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from webpte.dtypes import INT32_MAX, DType
from webpte.errors import ExecutionError, WebpteError, retold
from webpte.ops import lookup
from webpte.portable.eager import run_op
from webpte.shapes import Dims, fits


@dataclass(frozen=True)
class OutSpec:
    """What the file says of an output.

    `sizes` are exact, or the largest if it is `dynamic` (it has no more elements than they say), or
    a mere guess if it is `unbounded`.
    """

    dtype: DType
    sizes: Dims
    dynamic: bool
    unbounded: bool = False

    @property
    def limits(self) -> Dims:
        """The largest sizes."""
        return tuple(INT32_MAX for _ in self.sizes) if self.unbounded else self.sizes


FLOATS = frozenset({"float32", "float16"})
# What moves elements gives on the GPU what it gives on the host, whatever they are; 64 bits do not
# fit there.
MOVED = FLOATS | {"bool", "uint8", "int8", "int32"}
# Indices fit: one beyond 32 bits is out of the range of every tensor, and an error there, too.
INDICES = frozenset({"int32", "int64"})
TRUTH = frozenset({"bool"})

Run = Callable[[Sequence[Any], Sequence[OutSpec]], Sequence[Any]]
Prepare = Callable[..., Sequence[Any]]


@dataclass(frozen=True)
class PortableKernel:
    """One operator. `parameters` are those of its schema, without outputs.

    `in_place` kernels have no outputs of their own: their result replaces their first argument,
    which is None where nothing has written it yet. A kernel with `list_output` has a single output
    that is a list of tensors, and returns as many arrays as `outs` has entries.

    `op` names the operator of the delegates that means the same, if there is one, at least where
    all tensors are of one and the same of `types`; those named in `apart` (parameters, "out", or
    "out0" and on if there are several) are of one of the types there instead. Its arguments are the
    kernel's, or what `prepare` makes of them. A `heavy` kernel multiplies matrices. The argument
    named in `copied` is what the kernel gives, wherever it has the output's size. One that `casts`
    gives its first argument in the output's type.
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

    def types_of_output(self, number: int) -> frozenset[str] | None:
        """The types of an output that is `apart`; None for all others."""
        return self.apart.get("out" if self.outputs == 1 else f"out{number}")

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
    """`run` with errors that name the kernel; NumPy's own would say neither which nor what."""

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
) -> None:
    """A kernel that is a function of its arguments and returns one array, or several.

    A `typed` function takes the OutSpec of its (first) output before its arguments.
    """

    def run(values: Sequence[Any], outs: Sequence[OutSpec]) -> Sequence[Any]:
        result = function(outs[0], *values) if typed else function(*values)
        return (result,) if outputs == 1 and not list_output else result

    names = tuple(filter(None, parameters.split(", ")))
    how = (in_place, list_output, notes, op, prepare, heavy, types, apart or {}, copied, casts)
    _add(PortableKernel(name, names, outputs, _named(name, run), *how))


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
) -> None:
    """A kernel that means the same as an operator of the delegates: it runs its reference."""
    if lookup(op_name) is None:
        raise ValueError(f"{name}: there is no op {op_name}")

    def run(values: Sequence[Any], outs: Sequence[OutSpec]) -> Sequence[Any]:
        arguments = kernel.op_arguments(values)
        results = run_op(op_name, arguments, [(out.dtype, out.limits) for out in outs])
        # References may compute in a wider type than the output's.
        return [result.astype(out.dtype.numpy) for result, out in zip(results, outs, strict=True)]

    names, named = tuple(parameters.split(", ")), _named(name, run)
    how = (False, list_output, notes, op_name, prepare, heavy, types, apart or {})
    kernel = PortableKernel(name, names, outputs, named, *how)
    _add(kernel)


def op_named_like(name: str) -> str | None:
    """The operator of the delegates that is called like a kernel, with the same arguments."""
    op = name.replace("::", ".").removesuffix("out") + "default"
    return None if lookup(op) is None else op


def lookup_kernel(name: str) -> PortableKernel | None:
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
    check_shape(name, array.shape, out)
    with np.errstate(all="ignore"):
        return array.astype(target, copy=False)


def check_shape(name: str, shape: Dims, out: OutSpec) -> None:
    """Refuse a result of a shape that the file does not allow its output."""
    if len(shape) != len(out.sizes):
        raise ExecutionError(
            f"{name}: a result of shape {list(shape)} for an output of rank {len(out.sizes)}"
        )
    if not (out.unbounded or shape == out.sizes or (out.dynamic and fits(shape, out.sizes))):
        bound = "at most " if out.dynamic else ""
        raise ExecutionError(
            f"{name}: a result of shape {list(shape)} for an output of {bound}{list(out.sizes)}"
        )
