"""Kernels that quantize and dequantize: float = (integer - zero) * scale.

There is a scale for a tensor, for each index of a dim ("channel") or for each row ("token"). Packed
tables hold two or four numbers per byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from webpte.engine.portable.registry import INDICES, MOVED, TRUTH, OutSpec, register, register_op
from webpte.engine.shapes import normalize_dim
from webpte.errors import ExecutionError

Array = np.ndarray

# kernel: (parameters, equivalent op of delegates, outputs)
SAME_AS_OP = {
    "quantized_decomposed::choose_qparams.Tensor_out": (
        "input, quant_min, quant_max, eps, dtype",
        "quantized_decomposed.choose_qparams.tensor",
        2,
    ),
    "quantized_decomposed::choose_qparams_per_token_asymmetric.out": (
        "input, dtype",
        "quantized_decomposed.choose_qparams_per_token_asymmetric.default",
        2,
    ),
}


# A scale per tensor, channel or token


def one(value: Array | float) -> Array:
    """Return a tensor's scale or zero from a number, or from a tensor with a single element."""
    array = np.asarray(value)
    if array.size != 1:
        raise ExecutionError(f"a tensor has one scale and zero for all, not {list(array.shape)}")
    return array.reshape(())


def by_channel(x: Array, values: Array, axis: int) -> Array:
    dim = normalize_dim(axis, x.ndim)
    if values.size != x.shape[dim]:
        raise ExecutionError(f"{values.size} scales for a dim of {x.shape[dim]}")
    return values.reshape([-1 if i == dim else 1 for i in range(x.ndim)])


def to_integers(
    out: OutSpec, x: Array, scale: Array, zero: Array, quant_min: int, quant_max: int
) -> Array:
    """Quantize in float32, as PyTorch does: a wider type could round differently."""
    inverse = (1 / scale).astype(np.float32)
    numbers = np.round(x.astype(np.float32) * inverse).astype(np.float64) + zero
    return np.clip(numbers, quant_min, quant_max).astype(out.dtype.numpy)


def to_floats(x: Array, scale: Array, zero: Array | int) -> Array:
    numbers = x.astype(np.float32) - np.asarray(zero).astype(np.float32)
    return numbers * scale.astype(np.float32)


def quantize_tensor(
    out: OutSpec, x: Array, scale: Array | float, zero: Array | int, low: int, high: int, dtype: int
) -> Array:
    return to_integers(out, x, one(scale), one(zero), low, high)


def dequantize_tensor(
    x: Array,
    scale: Array | float,
    zero: Array | int,
    low: int,
    high: int,
    dtype: int,
    out_dtype: int | None,
) -> Array:
    return to_floats(x, one(scale), one(zero))


def quantize_channel(
    out: OutSpec, x: Array, scales: Array, zeros: Array, axis: int, low: int, high: int, dtype: int
) -> Array:
    scale, zero = by_channel(x, scales, axis), by_channel(x, zeros, axis)
    return to_integers(out, x, scale, zero, low, high)


def dequantize_channel(
    x: Array,
    scales: Array,
    zeros: Array | None,
    axis: int,
    low: int,
    high: int,
    dtype: int,
    out_dtype: int | None,
) -> Array:
    zero = 0 if zeros is None else by_channel(x, zeros, axis)
    return to_floats(x, by_channel(x, scales, axis), zero)


def by_token(x: Array, values: Array) -> Array:
    if values.size * x.shape[-1] != x.size:
        raise ExecutionError(f"{values.size} scales for the rows of {list(x.shape)}")
    return values.reshape(*x.shape[:-1], 1)


def quantize_token(
    out: OutSpec, x: Array, scales: Array, zeros: Array, low: int, high: int, dtype: int
) -> Array:
    return to_integers(out, x, by_token(x, scales), by_token(x, zeros), low, high)


def dequantize_token(
    x: Array, scales: Array, zeros: Array, low: int, high: int, dtype: int, output_dtype: int
) -> Array:
    return to_floats(x, by_token(x, scales), by_token(x, zeros))


def add(
    out: OutSpec,
    a: Array,
    a_scale: float,
    a_zero: int,
    a_low: int,
    a_high: int,
    b: Array,
    b_scale: float,
    b_zero: int,
    b_low: int,
    b_high: int,
    scale: float,
    zero: int,
    low: int,
    high: int,
) -> Array:
    total = to_floats(a, one(a_scale), a_zero) + to_floats(b, one(b_scale), b_zero)
    return to_integers(out, total, one(scale), one(zero), low, high)


# Tables


def unpack(packed: Array, bits: int) -> Array:
    """Unpack numbers of `bits` bits, lowest first in a byte, and subtract half their range."""
    if bits == 8:
        return packed
    # The first of two 4-bit numbers is the upper half of its byte.
    shifts = [4, 0] if bits == 4 else [0, 2, 4, 6]
    parts = [(packed.view(np.uint8) >> shift) & (2**bits - 1) for shift in shifts]
    numbers = np.stack(parts, axis=-1).reshape(*packed.shape[:-1], -1)
    return numbers.astype(np.int16) - 2 ** (bits - 1)


def grouped(numbers: Array, scales: Array, zeros: Array | None) -> Array:
    """Dequantize rows of numbers with a scale per row, or a scale per group of equal size."""
    per_row = scales.reshape(scales.shape[0], -1)
    groups = per_row.shape[1]
    if per_row.shape[0] != numbers.shape[0] or numbers.shape[1] % groups:
        raise ExecutionError(f"scales {list(scales.shape)} for a table {list(numbers.shape)}")
    parts = numbers.reshape(numbers.shape[0], groups, -1).astype(np.float64)
    if zeros is not None:
        parts = parts - zeros.reshape(per_row.shape)[:, :, None]
    return (parts * per_row[:, :, None]).reshape(numbers.shape)


def embedding(
    bits: int,
    out: OutSpec,
    weight: Array,
    scales: Array,
    zeros: Array | None,
    quant_min: int,
    quant_max: int,
    indices: Array,
    dtype: int | None = None,
) -> Array:
    if indices.size and indices.min() < 0:
        raise IndexError(f"index {indices.min()} is out of bounds: indices begin at 0")
    rows, places = np.unique(indices, return_inverse=True)
    table = grouped(
        unpack(weight[rows], bits), scales[rows], None if zeros is None else zeros[rows]
    )
    return table[places.reshape(indices.shape)].astype(out.dtype.numpy)


# GEMMs with a table of integers


def mixed_mm(x: Array, weight: Array, scales: Array, zeros: Array | None) -> Array:
    table = grouped(weight, scales, zeros)
    return (x.astype(np.float64) @ table).astype(x.dtype)


def mixed_linear(
    out: OutSpec, x: Array, weight: Array, scales: Array, zeros: Array | None, dtype: int | None
) -> Array:
    table = grouped(weight, scales, zeros)
    return (x.astype(np.float64) @ table.T).astype(out.dtype.numpy)


def _prefixed(prefixes: Sequence[str], names: str) -> str:
    return ", ".join(f"{prefix}_{name}" for prefix in prefixes for name in names.split(", "))


RANGE = "quant_min, quant_max, dtype"
TABLE = "weight, weight_scales, weight_zero_points, weight_quant_min, weight_quant_max, indices"
SCALE = "scale, zero_point, quant_min, quant_max"
D = "quantized_decomposed::"

for _name, (_parameters, _op, _outputs) in SAME_AS_OP.items():
    register_op(_name, _parameters, _op, outputs=_outputs, notes=f"`{_op}`")

for _overload in ("out", "Tensor_out"):
    register(
        f"{D}quantize_per_tensor.{_overload}",
        f"input, scale, zero_point, {RANGE}",
        quantize_tensor,
        typed=True,
    )
    register(
        f"{D}dequantize_per_tensor.{_overload}",
        f"input, scale, zero_point, {RANGE}, out_dtype",
        dequantize_tensor,
    )
register(
    f"{D}quantize_per_channel.out",
    f"input, scales, zero_points, axis, {RANGE}",
    quantize_channel,
    typed=True,
)
register(
    f"{D}dequantize_per_channel.out",
    f"input, scales, zero_points, axis, {RANGE}, out_dtype",
    dequantize_channel,
)
register(
    f"{D}quantize_per_token.out", f"input, scales, zero_points, {RANGE}", quantize_token, typed=True
)
register(
    f"{D}dequantize_per_token.out",
    f"input, scales, zero_points, {RANGE}, output_dtype",
    dequantize_token,
)
register(
    f"{D}add.out",
    f"a, {_prefixed('a', SCALE)}, b, {_prefixed('b', SCALE)}, {_prefixed(['out'], SCALE)}",
    add,
    typed=True,
)
for _bits, _kind in ((8, "byte"), (2, "2bit"), (4, "4bit")):
    for _overload, _op, _more in (("out", "default", ""), ("dtype_out", "dtype", ", dtype")):
        register(
            f"{D}embedding_{_kind}.{_overload}",
            f"{TABLE}{_more}",
            partial(embedding, _bits),
            typed=True,
            op=f"quantized_decomposed.embedding_{_kind}.{_op}",
            apart={
                "weight": frozenset({"int8", "uint8"}),
                "weight_zero_points": MOVED - TRUTH | INDICES,
                "indices": INDICES,
            },
        )
MIXED = "input, weight, weight_scales, weight_zero_points"
register(f"{D}mixed_mm.out", MIXED, mixed_mm)
register(f"{D}mixed_linear.out", f"{MIXED}, dtype", mixed_linear, typed=True)
