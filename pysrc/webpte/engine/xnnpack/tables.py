"""Unary nodes of XNNPACK on bytes, as tables of 256 results, indexed by the unsigned byte.

    unary_table("sigmoid", x_scale, x_zero, signed, out_scale, out_zero)   f(x), of a single type
    requantize_table(x_scale, x_zero, signed, out_scale, out_zero)         a Convert node
    quantized_bound(value, scale, zero, signed)                            output_min, output_max

XNNPACK computes most of them as floats, (q - zero) * scale, f, then round(f(x) / scale + zero), in
float32 with the sum before the rounding. Three have integers instead: conversions and leaky ReLUs
have multipliers in steps of 1 / 256, and a clamp that keeps scale and zero compares bytes. What a
node computes follows from XNNPACK's source, and has been compared with ExecuTorch's runtime.

Its float functions come from the C library, and may be off by a bit; functions here are rounded
from float64. A result that is nearer than that to the middle of two bytes may become the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from webpte.errors import UnsupportedError

Array = np.ndarray
F = np.float32

# Ratios of scales that 16 bits hold in steps of 1 / 256.
SMALLEST_RATIO, LARGEST_RATIO = 2.0**-8, 2.0**7


def limits(signed: bool) -> tuple[int, int]:
    """Return the range of int8 or uint8."""
    return (-128, 127) if signed else (0, 255)


def all_bytes(signed: bool) -> Array:
    """Return the number that each byte stands for, from byte 0 to byte 255."""
    raw = np.arange(256, dtype=np.uint8)
    return (raw.view(np.int8) if signed else raw).astype(np.int64)


def as_bytes(numbers: Array, signed: bool) -> Array:
    """Return numbers as int8 or uint8, at most the ends of the range."""
    return np.clip(numbers, *limits(signed)).astype(np.int8 if signed else np.uint8)


def quantized_bound(value: float, scale: float, zero: int, signed: bool) -> int:
    """Return a bound of a node's output as a byte's number; infinities are the ends of the range.

    XNNPACK divides by the scale, and rounds after it has clamped.
    """
    low, high = limits(signed)
    with np.errstate(over="ignore"):
        number = F(value) / F(scale) + F(zero)
    if math.isnan(number):
        raise UnsupportedError(f"a bound of an XNNPACK node is {value}, with a scale of {scale}")
    return int(np.rint(min(max(number, F(low)), F(high))))


# Floats in between


def dequantized(scale: float, zero: int, signed: bool) -> Array:
    """Return the float of each byte."""
    return (all_bytes(signed).astype(F) - F(zero)) * F(scale)


def quantized(x: Array, scale: float, zero: int, signed: bool) -> Array:
    """Round as XNNPACK's reference kernels do: NaN is 0 before the clamp."""
    with np.errstate(all="ignore"):
        numbers = x.astype(F) * (F(1) / F(scale)) + F(zero)
        return as_bytes(np.rint(np.where(np.isnan(numbers), F(0), numbers)), signed)


def wide(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Compute in float64, rounded to float32 once."""
    return lambda x: function(x.astype(np.float64)).astype(F)


def sigmoid(x: Array) -> Array:
    e = np.exp(np.clip(x, -100, 100))
    return np.where(x > 100, 1, np.where(x < -100, 0, e / (1 + e)))


def gelu(x: Array) -> Array:
    erf = np.array([math.erf(v * math.sqrt(2) / 2) for v in x.tolist()])
    return (x / 2) * (1 + erf)


def approximate_gelu(x: Array) -> Array:
    return (x / 2) * (1 + np.tanh(math.sqrt(2 / math.pi) * x * (1 + 0.044715 * x * x)))


def hardswish(x: Array) -> Array:
    return (x / F(6)) * np.maximum(np.minimum(x + F(3), F(6)), F(0))


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs,
    "approximate_gelu": wide(approximate_gelu),
    "ceiling": np.ceil,
    "copy": lambda x: x,
    "cos": wide(np.cos),
    "exp": wide(np.exp),
    "floor": np.floor,
    "gelu": wide(gelu),
    "hardswish": hardswish,
    "log": wide(np.log),
    "negate": np.negative,
    "reciprocal_square_root": lambda x: F(1) / np.sqrt(x),
    "sigmoid": wide(sigmoid),
    "sin": wide(np.sin),
    "square": lambda x: x * x,
    "square_root": np.sqrt,
    "tanh": wide(np.tanh),
}


def unary_table(
    name: str,
    x_scale: float,
    x_zero: int,
    signed: bool,
    out_scale: float,
    out_zero: int,
    *,
    alpha: float = 1.0,
    low: float = -math.inf,
    high: float = math.inf,
) -> Array:
    """Return the table of a node whose input and output are of the same type.

    `alpha` is of "elu" and "leaky_relu" (the slope), `low` and `high` of "clamp"; other names
    are in FUNCTIONS. Raise UnsupportedError for other names, and for scales that XNNPACK's
    integers do not hold.
    """
    if name == "leaky_relu":
        return leaky_relu_table(x_scale, x_zero, signed, out_scale, out_zero, alpha)
    if name == "clamp" and (F(x_scale), x_zero) == (F(out_scale), out_zero):
        first, last = (quantized_bound(v, out_scale, out_zero, signed) for v in (low, high))
        return as_bytes(np.clip(all_bytes(signed), first, last), signed)
    x = dequantized(x_scale, x_zero, signed)
    with np.errstate(all="ignore"):
        if name == "clamp":
            y = np.minimum(np.maximum(x, F(low)), F(high))
        elif name == "elu":
            y = np.where(x < 0, F(alpha) * wide(np.expm1)(x), x)
        elif name in FUNCTIONS:
            y = FUNCTIONS[name](x)
        else:
            raise UnsupportedError(f"XNNPACK's {name} has no table; known are {sorted(FUNCTIONS)}")
    return quantized(y, out_scale, out_zero, signed)


# Integers


def multiplier(ratio: np.float32, largest: float = LARGEST_RATIO) -> int:
    """Return a ratio of scales in steps of 1 / 256."""
    if not SMALLEST_RATIO <= abs(ratio) <= largest:
        raise UnsupportedError(
            f"scales of an XNNPACK node have a ratio of {ratio:g}; "
            f"{SMALLEST_RATIO:g} to {largest:g} are supported"
        )
    return int(np.rint(F(256) * ratio))


def leaky_relu_table(
    x_scale: float, x_zero: int, signed: bool, out_scale: float, out_zero: int, slope: float
) -> Array:
    """Return the table of a leaky ReLU: a multiplier for each sign."""
    ratio = F(x_scale) / F(out_scale)
    x = all_bytes(signed) - x_zero
    factors = np.where(x >= 0, multiplier(ratio), multiplier(ratio * F(slope)))
    return as_bytes((x * factors + 128 >> 8) + out_zero, signed)


def requantize_table(
    x_scale: float,
    x_zero: int,
    signed: bool,
    out_scale: float,
    out_zero: int,
    out_signed: bool | None = None,
) -> Array:
    """Return the table of a Convert node between bytes; `out_signed` if the type changes, too."""
    if out_signed is not None and out_signed != signed:
        return quantized(dequantized(x_scale, x_zero, signed), out_scale, out_zero, out_signed)
    factor = multiplier(F(x_scale) / F(out_scale))
    return as_bytes(((all_bytes(signed) - x_zero) * factor + 128 >> 8) + out_zero, signed)
