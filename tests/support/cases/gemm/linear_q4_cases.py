"""Cases of linear layers with packed weights; expectations unpack them value by value."""

from __future__ import annotations

import numpy as np

from support.cases.cases import Array
from support.cases.gemm.matmul_cases import np_linear, options, product
from support.cases.row_cases import RowCase, normal

Q4GSW, QCS4W = "et_vk.linear_q4gsw.default", "et_vk.linear_qcs4w.default"
DQ8CA, INT8 = "et_vk.linear_dq8ca_q4gsw.default", "aten._weight_int8pack_mm.default"
BACKWARD, REQUANT = "et_vk.linear_q4gsw_backward.default", "et_vk.q4gsw_requant.default"


def codes_at(packed: Array, inner: int, high_first: bool = False) -> Array:
    """Unpack one code at a time, from the nibbles of its byte."""
    codes = np.zeros((len(packed), inner))
    for row, k in np.ndindex(codes.shape):
        byte = int(packed[row, k // 2])
        first = (byte >> 4) if high_first else byte % 16
        second = byte % 16 if high_first else (byte >> 4)
        codes[row, k] = (second if k % 2 else first) - 8
    return codes


def dequantized(packed: Array, scales: Array, group: int, inner: int) -> Array:
    codes = codes_at(packed, inner)
    for row, k in np.ndindex(codes.shape):
        codes[row, k] *= float(scales[k // group, row])
    return codes


def packed_weights(rows: int, inner: int, width: int | None = None, seed: int = 5) -> Array:
    """Pack codes as the exporter does, in rows rounded up to 8 values."""
    width = (inner + 7) // 8 * 4 if width is None else width
    return np.random.default_rng(seed).integers(0, 256, (rows, width), np.uint8)


def positive(shape: tuple[int, ...], seed: int = 6) -> Array:
    return np.random.default_rng(seed).uniform(0.01, 0.1, shape).astype(np.float32)


def padded(number: int) -> int:
    return (number + 3) // 4 * 4


def grouped_scales(inner: int, group: int, columns: int) -> Array:
    return positive((-(-inner // group), columns))


def q4gsw(
    shape: tuple[int, ...],
    n: int,
    group: int,
    *live: tuple[int, ...],
    bias: bool = False,
    columns: int | None = None,
    width: int | None = None,
) -> RowCase:
    """`columns` is the width of the scales, `live` are further shapes of x."""
    inner = shape[-1]
    weight = packed_weights(n, inner, width)
    scales = grouped_scales(inner, group, padded(n) if columns is None else columns)
    added = normal((padded(n),), 7) if bias else None
    fixed = (weight, scales) if added is None else (weight, scales, added)
    return RowCase(
        Q4GSW,
        (normal(shape), weight, scales, group, added),
        lambda x, w, s, g, b: (
            np_linear(x, dequantized(w, s, g, inner)) + (0 if b is None else b[:n])
        ),
        live=tuple((normal(dims), *fixed) for dims in live),
        **options(inner),
    )


def qcs4w(shape: tuple[int, ...], n: int, extra: int = 0, width: int | None = None) -> RowCase:
    inner = shape[-1]
    return RowCase(
        QCS4W,
        (normal(shape), packed_weights(n, inner, width), positive((n + extra,))),
        lambda x, w, s: np_linear(x, codes_at(w, inner, high_first=True) * s[:n, None]),
        **options(inner),
    )


def int8(shape: tuple[int, ...], n: int, extra: int = 0) -> RowCase:
    weight = np.random.default_rng(8).integers(-128, 128, (n, shape[-1])).astype(np.int8)
    return RowCase(
        INT8,
        (normal(shape), weight, positive((n + extra,)) / 16),
        lambda x, w, s: np_linear(x, w.astype(np.float64) * s[:n, None]),
        **options(shape[-1]),
    )


def fake_quantized(x: Array, scale: Array, zero: Array, inverted: bool = False) -> Array:
    """Requantize element by element, rounding in float32 with ties to even."""
    rows = x.reshape(-1, x.shape[-1])
    out = np.zeros(rows.shape)
    for row, k in np.ndindex(rows.shape):
        s, z = np.float32(scale.flat[row]), int(zero.flat[row])
        s, inverse = (1 / s, s) if inverted else (s, 1 / s)
        q = round(float(np.float32(rows[row, k]) * inverse)) + z
        out[row, k] = (max(-128, min(127, q)) - z) * float(s)
    return out.reshape(x.shape)


def dq8ca(
    shape: tuple[int, ...],
    n: int,
    group: int,
    *live: tuple[int, ...],
    bias: bool = False,
    zero: str = "int8",
    inverted: bool = False,
) -> RowCase:
    """Return scales, or their inverses, with which some values are clamped."""
    inner = shape[-1]
    weight, scales = packed_weights(n, inner), grouped_scales(inner, group, padded(n))
    sums = np.full((len(scales), padded(n)), 10**6, np.int32)  # nothing to rely on
    added = normal((padded(n),), 7) if bias else None

    def rows(dims: tuple[int, ...]) -> tuple[Array, Array, Array]:
        zeros = np.random.default_rng(9).integers(-128, 128, dims[:-1]).astype(zero)
        given = positive(dims[:-1]) / 4
        return normal(dims), 1 / given if inverted else given, zeros

    fixed = (weight, sums, scales) if added is None else (weight, sums, scales, added)
    return RowCase(
        DQ8CA,
        (*rows(shape), weight, sums, scales, group, added, inverted),
        lambda x, s, z, w, _, ws, g, b, inverted: (
            np_linear(fake_quantized(x, s, z, inverted), dequantized(w, ws, g, inner))
            + (0 if b is None else b[:n])
        ),
        live=tuple((*rows(dims), *fixed) for dims in live),
        **options(inner),
    )


def backward(leading: tuple[int, ...], n: int, k: int, group: int, columns: int) -> RowCase:
    """`k` columns, of rows that may be longer."""
    weight, scales = packed_weights(n, k), grouped_scales(k, group, columns)
    return RowCase(
        BACKWARD,
        (normal((*leading, n)), weight, scales, group),
        lambda d, w, s, g: product(d.reshape(-1, n), dequantized(w, s, g, k)).reshape(*leading, k),
        **options(n),
    )


def requant(n: int, k: int, group: int, columns: int) -> RowCase:
    scales = grouped_scales(k, group, columns)
    scales[0, 0] = 0
    latent = normal((n, k), scale=0.5)
    latent[-1, :] = np.round(latent[-1, :] * 8) / 8
    if k > 2:
        scales[1 % len(scales), n - 1] = 0.25  # ties

    def expect(latent: Array, scales: Array, _: int) -> Array:
        out = np.zeros((n, (k + 1) // 2), np.uint8)
        for row, i in np.ndindex(n, k):
            scale = np.float32(scales[i // group, row])
            code = round(float(np.float32(latent[row, i]) / scale)) if scale else 0
            out[row, i // 2] += (max(-8, min(7, code)) + 8) * (16 if i % 2 else 1)
        return out

    return RowCase(REQUANT, (latent, scales, group), expect, outs=("uint8",))


# Wide rows (whole units of 16 bytes) and narrow ones, groups that a word, a unit or nothing fits.
LINEAR_Q4_CASES = [
    q4gsw((1, 64), 7, 32),
    q4gsw((3, 64), 12, 64, bias=True),
    q4gsw((2, 5, 96), 33, 32, bias=True),
    q4gsw((1, 2048), 9, 32),
    q4gsw((64,), 5, 32),
    q4gsw((1, 64), 6, 16),
    q4gsw((2, 64), 6, 8, columns=6),
    q4gsw((1, 12), 5, 4),
    q4gsw((5, 12), 6, 12, bias=True),
    q4gsw((1, 60), 6, 20),
    q4gsw((2, 20), 6, 5, columns=7),
    q4gsw((2, 6), 3, 3, width=3),
    q4gsw((3, 7), 3, 7, width=4),
    q4gsw((17, 64), 20, 32),
    q4gsw((21, 60), 37, 20, bias=True),
    q4gsw((3, 11, 36), 35, 36),
    q4gsw((20, 20), 6, 5, columns=7, bias=True),
    q4gsw((18, 7), 3, 7, width=4),
    q4gsw((20, 288), 24, 32, bias=True),
    q4gsw((31, 160), 71, 32),
    q4gsw((0, 64), 5, 32),
    q4gsw((2, 20, 64), 40, 32, (2, 1, 64), (1, 1, 64), (1, 19, 64), (1, 0, 64), (2, 20, 64)),
    q4gsw((33, 12), 9, 4, (1, 12), (16, 12), (17, 12), bias=True),
    qcs4w((4, 32), 16),
    qcs4w((1, 64), 7, extra=1),
    qcs4w((3, 12), 5),
    qcs4w((2, 10), 5, width=5),
    qcs4w((2, 7), 3, width=4),
    qcs4w((20, 64), 33),
    qcs4w((2, 10, 10), 5, width=5),
    int8((1, 32), 7),
    int8((2, 9), 5, extra=3),
    int8((3, 12), 6),
    int8((20, 36), 33),
    int8((19, 7), 5),
    dq8ca((1, 64), 9, 32),
    dq8ca((2, 3, 64), 8, 32, bias=True),
    dq8ca((5, 12), 6, 4),
    dq8ca((20, 64), 35, 32, bias=True),
    dq8ca((19, 12), 6, 12, zero="int32"),
    dq8ca((2, 3, 64), 8, 32, inverted=True),
    dq8ca((20, 12), 6, 4, inverted=True),
    dq8ca((20, 64), 35, 32, bias=True, inverted=True),
    dq8ca((2, 20, 64), 12, 32, (1, 1, 64), (1, 19, 64), (2, 4, 64), bias=True),
    backward((5,), 6, 16, 8, 8),
    backward((2, 20), 37, 40, 8, 37),
    backward((3,), 5, 12, 4, 8),
    backward((1,), 300, 20, 5, 300),
    requant(5, 16, 8, 8),
    requant(3, 7, 3, 3),
    requant(1, 1, 1, 4),
    requant(6, 10, 5, 7),
]

# For products by subgroup matrices: many rows; wide weights, aligned ones, and others.
MATRIX_CASES = [
    q4gsw((131, 64), 133, 32, bias=True),
    q4gsw((70, 192), 70, 64),
    int8((37, 64), 131),
    int8((37, 36), 131),
    q4gsw((35, 36), 70, 12),
    q4gsw((40, 72), 70, 12, columns=71),
    qcs4w((70, 10), 37, width=5),
    qcs4w((70, 64), 37),
    dq8ca((68, 64), 35, 32, bias=True),
]
# XNNPACK's rows come with the inverses of their scales.
INVERTED_MATRIX_CASE = dq8ca((68, 64), 35, 32, inverted=True)
