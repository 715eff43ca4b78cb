"""Cases of matmuls: expectations are sums over k in float64 or int64."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.row_cases import RowCase, normal

MM, BMM, ADDMM = "aten.mm.default", "aten.bmm.default", "aten.addmm.default"
LINEAR, GRADIENT = "aten.linear.default", "et_vk.linear_dW.default"


def product(a: Array, b: Array) -> Array:
    """a[..., m, k] times b[..., k, n]"""
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.result_type(a, b, np.int64))
    for k in range(a.shape[-1]):
        total += a[..., :, k, None] * b[..., k, None, :]
    return total


def options(k: int) -> dict[str, Any]:
    """Return a tolerance that grows with the number of terms, as sums may cancel."""
    return {"rtol": 1e-5, "atol": 1e-6 * max(k, 1) ** 0.5}


def mm(m: int, n: int, k: int, *live: tuple[int, int, int]) -> RowCase:
    pairs = [(normal((m, k)), normal((k, n), 2)) for m, n, k in ((m, n, k), *live)]
    return RowCase(MM, pairs[0], product, live=tuple(pairs[1:]), **options(k))


def bmm(batch: int, m: int, n: int, k: int, *live: tuple[int, int, int, int]) -> RowCase:
    pairs = [
        (normal((batch, m, k)), normal((batch, k, n), 2))
        for batch, m, n, k in ((batch, m, n, k), *live)
    ]
    return RowCase(BMM, pairs[0], product, live=tuple(pairs[1:]), **options(k))


def addmm(
    shape: tuple[int, ...], m: int, n: int, k: int, beta: float | None, alpha: float | None
) -> RowCase:
    b, a = (1 if scalar is None else scalar for scalar in (beta, alpha))
    return RowCase(
        ADDMM,
        (normal(shape, 3), normal((m, k)), normal((k, n), 2), beta, alpha),
        lambda self, x, y, *_: (b * self if b else 0) + a * product(x, y),
        **options(k * 16),
    )


def linear(shape: tuple[int, ...], n: int, bias: int | None, *live: tuple[int, ...]) -> RowCase:
    """`live` are further shapes of x."""
    weight, added = normal((n, shape[-1]), 2), None if bias is None else normal((bias,), 3)
    fixed = (weight,) if added is None else (weight, added)
    return RowCase(
        LINEAR,
        (normal(shape), weight, added),
        lambda x, w, b: np_linear(x, w) + (0 if b is None else b),
        live=tuple((normal(dims), *fixed) for dims in live),
        **options(shape[-1]),
    )


def np_linear(x: Array, weight: Array) -> Array:
    rows = x.reshape(int(np.prod(x.shape[:-1])), x.shape[-1])
    return product(rows, weight.T).reshape(*x.shape[:-1], len(weight))


def gradient(leading: tuple[int, ...], n: int, k: int) -> RowCase:
    return RowCase(
        GRADIENT,
        (normal((*leading, n)), normal((*leading, k), 2)),
        lambda d, x: product(d.reshape(-1, n).T, x.reshape(-1, k)),
        **options(100),
    )


def integers(shape: tuple[int, ...], dtype: str, seed: int, limit: int) -> Array:
    return np.random.default_rng(seed).integers(-limit, limit, shape).astype(dtype)


def integer_cases() -> list[RowCase]:
    """Build a case of integers: exact where float32 is not, and sums wrap."""
    small = integers((5, 7), "int32", 1, 9), integers((7, 3), "int32", 2, 9)
    large = integers((5, 70), "int32", 1, 2**20), integers((70, 35), "int32", 2, 2**20)
    wide = integers((35, 7), "int64", 1, 1000), integers((7, 33), "int64", 2, 1000)
    added = integers((3,), "int32", 3, 9)
    return [
        RowCase(MM, small, product, outs=("int32",)),
        RowCase(MM, large, product, outs=("int32",), label="wraps"),
        RowCase(MM, wide, product, outs=("int64",)),
        RowCase(
            ADDMM,
            (added, *small, 3.0, -2),
            lambda c, a, b, *_: 3 * c - 2 * product(a, b),
            outs=("int32",),
        ),
    ]


# Every remainder modulo 4, one row and one column, more than one tile, long sums, nothing at all.
MATMUL_CASES = [
    *(
        mm(*sizes)
        for sizes in (
            *((1, 1, 1), (1, 7, 5), (3, 5, 7), (5, 3, 2), (4, 4, 4), (16, 8, 12), (2, 130, 67)),
            *((17, 1, 9), (40, 1, 64), (1, 1, 300), (17, 5, 3), (33, 35, 37), (36, 64, 16)),
            *((20, 24, 300), (65, 66, 131), (129, 131, 20), (0, 3, 4), (3, 0, 4), (3, 4, 0)),
            *((20, 30, 0), (100, 100, 1000)),
        )
    ),
    mm(40, 37, 21, (1, 37, 21), (17, 37, 21), (3, 5, 7), (0, 2, 1), (39, 1, 20), (40, 37, 21)),
    bmm(3, 5, 6, 8),
    bmm(2, 1, 9, 5),
    bmm(5, 20, 1, 7),
    bmm(2, 20, 19, 300),
    bmm(7, 33, 34, 18),
    bmm(0, 3, 4, 5),
    bmm(4, 25, 30, 12, (2, 25, 30, 12), (1, 3, 2, 12), (4, 20, 7, 3), (3, 1, 1, 1)),
    addmm((6,), 5, 6, 7, 1.0, 1.0),
    addmm((5, 6), 5, 6, 7, 2, 0.5),
    addmm((1, 6), 5, 6, 7, -1, 3),
    addmm((5, 1), 5, 6, 7, 0.25, None),
    addmm((1,), 5, 6, 7, None, None),
    addmm((), 5, 6, 7, 1, 1),
    addmm((20, 1), 20, 22, 301, 2, 3),
    addmm((22,), 20, 22, 301, 2, 3),
    addmm((30, 1), 30, 1, 9, 2, 3),
    addmm((100,), 100, 100, 1001, 2, 3),
    addmm((6,), 5, 6, 0, 2, 3),
    addmm((5, 6), 5, 6, 7, 0, 1),
    linear((5, 7), 3, 3),
    linear((5, 7), 3, 1),
    linear((8,), 5, 5),
    linear((8,), 5, None),
    linear((2, 3, 4, 12), 6, 6),
    linear((1, 64), 130, 130),
    linear((3, 50), 9, None),
    linear((40, 33), 37, 37),
    linear((2, 20, 36), 40, None),
    linear((21, 300), 21, 21),
    linear((30, 20), 1, 1),
    linear((2, 0, 4), 3, 3),
    linear((3, 0), 4, 4),
    linear((2, 20, 36), 40, 40, (1, 1, 36), (2, 9, 36), (2, 19, 36), (1, 0, 36)),
    RowCase(
        LINEAR,
        (normal((4, 5)), normal((5,), 2), None),
        lambda x, w, b: product(x, w[:, None])[:, 0],
    ),
    gradient((6,), 5, 7),
    gradient((3, 9), 34, 35),
    gradient((1,), 3, 2),
    gradient((300,), 20, 4),
    gradient((0,), 3, 2),
    *integer_cases(),
]

# For products by subgroup matrices: many rows, of odd sizes.
MATRIX_CASES = [linear((131, 37), 133, 133), linear((2, 70, 54), 70, None)]
