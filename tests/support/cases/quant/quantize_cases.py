"""Cases of affine quantization, one element after the other in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import Const, LiveCase

F = np.float32
BY_NUMBERS, BY_TENSORS = "per_tensor.default", "per_tensor.tensor"
CHANNEL, TOKEN, AFFINE = "per_channel.default", "per_token.default", "affine.default"
IMAGES = "images.default"  # with the inverses of scales
INT8, UINT8, INT32 = ("int8", -128, 127), ("uint8", 0, 255), ("int32", -(2**31), 2**31 - 1)


def name_of(verb: str, kind: str) -> str:
    namespace = {AFFINE: "torchao", IMAGES: "webpte"}.get(kind, "quantized_decomposed")
    return f"{namespace}.{verb}_{kind}"


# What comes out


def to_integer(x: float, scale: float, zero: float, low: int, high: int, zero_first: bool) -> int:
    """Python rounds half to even; products are rounded to float32, as the ops are defined."""
    value = F(x) * F(1 / float(scale))
    rounded = nearest(value + F(zero)) if zero_first else nearest(value) + float(zero)
    return int(max(low, min(high, rounded)))


def nearest(value: F) -> float:
    return float(value) if np.isinf(value) else round(float(value))


def to_float(q: float, scale: float, zero: float) -> float:
    return float((F(q) - F(zero)) * F(scale))


def spread(values: Any, shape: tuple[int, ...], block: Sequence[int]) -> Array:
    """One value per block to one per element."""
    counts = [-(-size // step) if step else 0 for size, step in zip(shape, block, strict=True)]
    number = int(np.prod(counts))
    flat = np.zeros(number) if values is None else np.resize(np.asarray(values), number)
    result = flat.reshape(counts)
    for axis, step in enumerate(block):
        result = np.repeat(result, step, axis)
    return result


def unpacked(kind: str, x: Array, args: tuple[Any, ...]) -> tuple[Array, Array, Any, Any]:
    """Scales and zeros of all elements, and the bounds, from the arguments behind x."""
    block: Sequence[int] = x.shape
    args = (*args, None, None, None)
    if kind == AFFINE:
        block, scale, zero, _, low, high = args[:6]
    elif kind == CHANNEL:
        scale, zero, axis, low, high = args[:5]
        block = [1 if i == axis % x.ndim else size for i, size in enumerate(x.shape)]
    else:
        scale, zero, low, high = args[:4]
        if kind == TOKEN:
            block = (*(1 for _ in x.shape[:-1]), x.shape[-1])
        if kind == IMAGES:
            block, scale = (1, *x.shape[1:]), 1 / scale
    return spread(scale, x.shape, block), spread(zero, x.shape, block), low, high


def elements(function: Callable[..., float], x: Array, *others: Array) -> Array:
    lists = [array.ravel().tolist() for array in (x, *others)]
    return np.array([function(*values) for values in zip(*lists, strict=True)]).reshape(x.shape)


def quantized(kind: str, dtype: str) -> Callable[..., Array]:
    def expect(x: Array, *args: Any) -> Array:
        scale, zero, low, high = unpacked(kind, x, args)
        limits = np.iinfo(dtype)
        low, high = limits.min if low is None else low, limits.max if high is None else high
        return elements(
            lambda v, s, z: to_integer(v, s, z, low, high, kind == TOKEN), x, scale, zero
        )

    return expect


def dequantized(kind: str) -> Callable[..., Array]:
    def expect(q: Array, *args: Any) -> Array:
        scale, zero, _, _ = unpacked(kind, q, args)
        return elements(to_float, q, scale, zero)

    return expect


# What goes in


def reals(shape: Sequence[int]) -> Array:
    rng = np.random.default_rng(int(np.prod(shape)) + 17)
    return rng.normal(0, 3, tuple(shape)).astype(F)


def integers(shape: Sequence[int], dtype: str = "int8", limit: int = 2**20) -> Array:
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(int(np.prod(shape)) + limit)
    low, high = max(limits.min, -limit), min(limits.max, limit)
    return np.asarray(rng.integers(low, high + 1, tuple(shape)), dtype)


def scales(*shape: int) -> Array:
    rng = np.random.default_rng(int(np.prod(shape)) + 23)
    return rng.uniform(0.01, 0.1, shape).astype(F)


def zeros(*shape: int, dtype: str = "int32") -> Array:
    values = integers(shape, "int8", 20)
    return (np.abs(values) if dtype == "uint8" else values).astype(dtype)


Given = tuple[Any, ...]


def quantize(kind: str, steps: list[Given], dtype: str = "int8", label: str = "") -> LiveCase:
    expect = quantized(kind, dtype)
    return LiveCase(name_of("quantize", kind), steps, expect, dtype, label, exact=False)


def dequantize(kind: str, steps: list[Given], label: str = "") -> LiveCase:
    expect = dequantized(kind)
    return LiveCase(name_of("dequantize", kind), steps, expect, "float32", label, exact=False)


def both(
    kind: str, shape: tuple[int, ...], *args: Any, kept: tuple[str, int, int] = INT8
) -> list[LiveCase]:
    """The two ops with the same arguments; `args` are those between x and the bounds."""
    dtype, low, high = kept
    behind = (None, low, high) if kind == AFFINE else (low, high, None)
    return [
        quantize(kind, [(reals(shape), *args, *behind)], dtype),
        dequantize(kind, [(integers(shape, dtype), *args, *behind, None)]),
    ]


SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (3,), (4,), (5,), (67,), (2, 3, 5), (2, 0, 3))
TIES = (np.arange(-40, 41) / 16).astype(F)  # halves, once divided by 1/8
FAR = np.array([3e37, -3e37, 1e10, -1e10, np.inf, -np.inf, 0, -0.0, 1e-40], F)

PER_TENSOR = [
    *(case for shape in SHAPES for case in both(BY_NUMBERS, shape, 0.05, 3)),
    *(case for kept in (UINT8, INT32) for case in both(BY_NUMBERS, (11,), 0.07, 5, kept=kept)),
    *(
        case
        for zero in ("int8", "uint8", "int32", "float32")
        for case in both(BY_TENSORS, (7,), scales(1), zeros(1, dtype=zero))
    ),
    *both(BY_TENSORS, (2, 3), scales().reshape(()), None),
    *both(BY_TENSORS, (5,), scales(1), zeros(1), kept=UINT8),
    *(
        quantize(kind, [(x, *args, low, high, None)], dtype, label)
        for x, label in ((TIES, "ties"), (FAR, "far"))
        for dtype, low, high in (INT8, UINT8, INT32, ("int8", -8, 7), ("int32", 0, 65535))
        for kind, args in (
            (BY_NUMBERS, (0.125, 1)),
            (BY_TENSORS, (np.array([0.125], F), np.array([1], np.int32))),
        )
    ),
    quantize(BY_NUMBERS, [(reals((n,)), 0.05, 3, -128, 127) for n in (13, 4, 1, 0, 7)]),
    dequantize(BY_TENSORS, [(integers((n,)), scales(1), zeros(1), -128, 127) for n in (13, 4, 0)]),
]

PER_CHANNEL = [
    *(
        case
        for shape in ((5,), (3, 5), (2, 3, 4), (2, 3, 4, 5), (1, 7, 1), (3, 1, 8))
        for axis in range(-1, len(shape) - 1)
        for case in both(CHANNEL, shape, Const(scales(shape[axis])), zeros(shape[axis]), axis)
    ),
    *both(CHANNEL, (5, 4), scales(5), None, 0),
    *both(CHANNEL, (5, 4), Const(scales(8)), Const(zeros(8)), 0),
    *both(CHANNEL, (5, 4), scales(1), zeros(1), 1),
    *both(CHANNEL, (3, 5), scales(5), zeros(5, dtype="int8"), 1, kept=INT32),
    *both(CHANNEL, (3, 0, 5), scales(3), zeros(3), 0),
    dequantize(CHANNEL, [(integers((n, 3)), scales(n), zeros(n), 0, -128, 127) for n in (9, 4, 1)]),
]

PER_TOKEN = [
    *(
        case
        for shape in ((5,), (3, 5), (3, 8), (2, 3, 4), (7, 1), (2, 3, 5, 6))
        for case in both(TOKEN, shape, scales(*shape[:-1], 1), zeros(*shape[:-1], 1))
    ),
    *both(TOKEN, (4, 6), scales(4), None),
    *both(TOKEN, (4, 6), scales(4, 1), zeros(4, 1, dtype="float32"), kept=UINT8),
    # The zero before rounding: 0.5 + 1 is rounded up, 0.5 alone is not.
    quantize(TOKEN, [(TIES.reshape(3, 27), np.full((3, 1), 0.125, F), zeros(3, 1), -128, 127)]),
    quantize(TOKEN, [(reals((n, 6)), scales(n, 1), zeros(n, 1), -128, 127) for n in (7, 1, 5)]),
]

BLOCKS: tuple[tuple[tuple[int, ...], list[int]], ...] = (
    ((4, 6), [1, 3]),
    ((4, 8), [1, 4]),
    ((4, 8), [2, 8]),
    ((4, 6), [4, 6]),
    ((4, 6), [1, 1]),
    ((8,), [2]),
    ((2, 4, 6), [1, 4, 2]),
    ((2, 4, 6, 5), [2, 2, 3, 1]),
    ((4, 1, 4, 1, 4, 4), [2, 1, 2, 1, 2, 2]),
    ((), []),
)

PER_BLOCK = [
    *(
        case
        for shape, block in BLOCKS
        for count in [[size // step for size, step in zip(shape, block, strict=True)]]
        for case in both(AFFINE, shape, block, scales(*count), zeros(*count))
    ),
    *both(AFFINE, (4, 6), [1, 3], scales(4, 2), None),
    *both(AFFINE, (4, 6), [1, 3], scales(4, 2), Const(np.zeros(0, np.int32))),
    *both(AFFINE, (4, 0), [1, 3], scales(4, 0), None),
    *both(AFFINE, (4, 6), [2, 3], scales(4), zeros(4), kept=UINT8),
    quantize(AFFINE, [(reals((4, 6)), [1, 3], scales(4, 2), zeros(4, 2), None, None, None)]),
    quantize(AFFINE, [(reals((4, 6)), [1, 3], scales(4, 2), None)], "uint8"),
    dequantize(AFFINE, [(integers((n, 6)), [1, 3], scales(n, 2), zeros(n, 2)) for n in (5, 1)]),
]

PER_IMAGE = [
    case
    for shape in ((1, 3, 5), (2, 3, 5), (3, 2, 2, 2), (5, 1), (0, 4))
    for case in both(IMAGES, shape, 1 / scales(shape[0]), zeros(shape[0], dtype="int8"))
]

QUANTIZE_CASES = [*PER_TENSOR, *PER_CHANNEL, *PER_TOKEN, *PER_BLOCK, *PER_IMAGE]
