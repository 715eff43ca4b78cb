"""Arithmetic of two tensors with a clamp before or after, as ExecuTorch 1.0 joins them.

    binary_OP_with_clamp    clamp(self OP other, low, high)
    clamp_with_binary_OP    clamp(self, low, high) OP other

OP is add, sub, mul or div, of floats, with NumPy's broadcasting; either bound may be absent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.numpy_math import np_clamp
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.elementwise.binary import (
    Binary,
    broadcast_shape,
    lower_binary,
    np_divide,
    run_binary,
)
from webpte.engine.shapes import Dims
from webpte.errors import UnsupportedError

Array = np.ndarray

ARITHMETIC: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "add": ("{} + y", np.add),
    "sub": ("{} - y", np.subtract),
    "mul": ("{} * y", np.multiply),
    "div": ("{} / y", np_divide),
}
AFTER = "self: tensor, other: tensor, low: number? = None, high: number? = None -> tensor"
UNBOUNDED = {"low": -math.inf, "high": math.inf}
LARGEST = float(np.finfo(np.float32).max)
BEFORE = "self: tensor, low: number?, high: number?, other: tensor -> tensor"


@dataclass(frozen=True)
class ClampedBinary:
    """A single op: which arithmetic, and whether the clamp comes first."""

    operator: str
    clamps_first: bool

    @property
    def name(self) -> str:
        pattern = "clamp_with_binary_{}" if self.clamps_first else "binary_{}_with_clamp"
        return f"et_vk.{pattern.format(self.operator)}.default"

    def at(self, args: Args) -> Binary:
        """Return the arithmetic with the bounds of a call, which are constants of its kernel."""
        low, high = (bound(args, name) for name in ("low", "high"))
        formula, function = ARITHMETIC[self.operator]

        def clamp(x: Array) -> Array:
            return np_clamp(
                x, -math.inf if low is None else low, math.inf if high is None else high
            )

        def compute(x: Array, y: Array) -> Array:
            result = function(clamp(x), y) if self.clamps_first else clamp(function(x, y))
            return np.asarray(result)

        whole = formula.format(clamped("x", low, high) if self.clamps_first else "x")
        return Binary(self.name, whole if self.clamps_first else clamped(whole, low, high), compute)


def bound(args: Args, name: str) -> float | None:
    """Return a bound as a float32; None if it is absent or infinite: WGSL has no infinities."""
    number = args.optional_number(name)
    if number is None or number == UNBOUNDED[name]:
        return None
    return float(np.float32(max(-LARGEST, min(LARGEST, number))))


def clamped(formula: str, low: float | None, high: float | None) -> str:
    """Return a formula with its bounds; a NaN passes, and the upper bound wins."""
    inner = formula if low is None else f"max({formula}, Vec({low!r}))"
    inner = inner if high is None else f"min({inner}, Vec({high!r}))"
    return inner if inner == formula else f"keep_nan({formula}, {inner})"


def shape(args: Args) -> tuple[Dims]:
    tensors = args.tensor("self"), args.tensor("other"), args.out
    if not all(tensor.dtype.is_float for tensor in tensors):
        given = ", ".join(tensor.dtype.name for tensor in tensors)
        raise UnsupportedError(f"{args.call}: takes and makes floats, not {given}")
    return broadcast_shape(args)


def lower(op: ClampedBinary, args: Args) -> list[Dispatch]:
    return lower_binary(op.at(args), args)


for _op in (ClampedBinary(name, first) for name in ARITHMETIC for first in (False, True)):
    register(
        _op.name,
        BEFORE if _op.clamps_first else AFTER,
        shape=shape,
        lower=lambda args, op=_op: lower(op, args),  # type: ignore[misc]
        reference=lambda args, op=_op: run_binary(op.at(args), args),  # type: ignore[misc]
    )
