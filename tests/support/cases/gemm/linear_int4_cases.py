"""Cases of linear layers of ExecuTorch 0.5 to 0.7; expectations unpack weight by weight."""

from __future__ import annotations

import numpy as np

from support.cases.cases import Array
from support.cases.gemm.linear_q4_cases import codes_at, packed_weights, positive
from support.cases.gemm.matmul_cases import np_linear, options
from support.cases.row_cases import RowCase, normal

OP = "et_vk.linear_weight_int4.default"


def dequantized(packed: Array, pairs: Array, group: int, inner: int) -> Array:
    codes = codes_at(packed, inner, high_first=True)
    for row, k in np.ndindex(codes.shape):
        scale, zero = pairs[k // group, row]
        codes[row, k] = codes[row, k] * float(scale) + float(zero)
    return codes


def linear(shape: tuple[int, ...], n: int, group: int, *live: tuple[int, ...]) -> RowCase:
    """`live` are further shapes of x."""
    inner = shape[-1]
    weight = packed_weights(n, inner, inner // 2)
    groups = (inner // group, n)
    pairs = np.stack([positive(groups), normal(groups, 7, scale=0.1)], -1)
    return RowCase(
        OP,
        (normal(shape), weight, group, pairs, 8),
        lambda x, w, g, p, _: np_linear(x, dequantized(w, p, g, inner)),
        live=tuple((normal(dims), weight, pairs) for dims in live),
        **options(inner),
    )


LINEAR_INT4_CASES = [
    linear((1, 64), 7, 32),
    linear((3, 64), 12, 64),
    linear((1, 5, 96), 33, 32),
    linear((1, 1024), 8, 256),
    linear((64,), 5, 32),
    linear((1, 2), 1, 2),
    linear((7, 10), 3, 5),
    linear((19, 64), 37, 8),
    linear((0, 64), 5, 32),
    linear((1, 20, 64), 40, 32, (1, 1, 64), (1, 19, 64), (1, 0, 64)),
]
