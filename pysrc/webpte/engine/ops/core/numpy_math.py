"""Element-wise functions that NumPy lacks.

Python scalars keep the array's dtype (NEP 50).
"""

from __future__ import annotations

import math

import numpy as np

Array = np.ndarray


def np_sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def np_hardsigmoid(x: Array) -> Array:
    return np.clip(x + 3, 0, 6) / 6


def np_erf(x: Array) -> Array:
    erf = np.vectorize(math.erf, otypes=[np.float64])
    return np.asarray(erf(x.astype(np.float64)))


def np_gelu(x: Array) -> Array:
    return (0.5 * x * (1 + np_erf(x / math.sqrt(2)))).astype(x.dtype)


def np_gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def within_int32(x: Array) -> Array:
    """Convert floats to int64 as kernels with 32-bit integers do: truncate and clamp.

    NaN, which GPUs convert to any number, becomes 0.
    """
    wide = np.nan_to_num(x.astype(np.float64))
    return np.clip(wide, -(2.0**31), 2.0**31 - 1).astype(np.int64)


def byte_bound(bound: float) -> float:
    """Wrap a negative bound of uint8: torch casts bounds to uint8 first."""
    return bound % 256 if -math.inf < bound < 0 else bound


def np_clamp(x: Array, low: float, high: float) -> Array:
    """Clamp `x`; the upper bound wins, and a bound beyond the dtype's range has no effect."""
    if x.dtype == np.uint8:
        low, high = byte_bound(low), byte_bound(high)
    if x.dtype.kind in "iub":
        limits = np.iinfo(x.dtype if x.dtype.kind != "b" else np.int8)
        low, high = max(low, limits.min), min(high, limits.max)
    return np.minimum(np.maximum(x, low), high)


def np_pow(x: Array, exponent: float) -> Array:
    with np.errstate(all="ignore"):
        if abs(exponent) == 0.5:
            return np.sqrt(x) if exponent > 0 else 1 / np.sqrt(x)
        return np.power(x, exponent)


def np_sign(x: Array) -> Array:
    return x if x.dtype.kind == "b" else (x > 0) * x.dtype.type(1) - (x < 0)


def np_elu(x: Array, alpha: float, scale: float, input_scale: float) -> Array:
    return scale * np.where(x > 0, x, alpha * np.expm1(x * input_scale))


def np_softplus(x: Array, beta: float, threshold: float) -> Array:
    scaled = x * beta
    return np.where(scaled > threshold, x, np.log1p(np.exp(scaled)) / beta)


def np_mish(x: Array) -> Array:
    return x * np.tanh(np.logaddexp(x, x.dtype.type(0)))
