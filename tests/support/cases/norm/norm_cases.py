"""Cases of the normalizations. Expectations loop over rows in plain Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.row_cases import RowCase, normal

LAYER, RMS = "aten.native_layer_norm.default", "et_vk.rms_norm.default"
UNSCALED = "webpte.unscaled_rms_norm"
GROUP = "aten.native_group_norm.default"
BATCH = "aten._native_batch_norm_legit_no_training.default"
THREE = ("float32",) * 3


def normalized(row: list[float], eps: float) -> tuple[list[float], float, float]:
    mean = math.fsum(row) / len(row)
    variance = math.fsum((v - mean) ** 2 for v in row) / len(row)
    rstd = 1 / math.sqrt(variance + eps)
    return [(v - mean) * rstd for v in row], mean, rstd


def by_rows(x: Array, rows: int, eps: float) -> tuple[Array, Array, Array]:
    each = [normalized(row, eps) for row in x.reshape(rows, -1).tolist()] if x.size else []
    columns = [np.array([row[i] for row in each]) for i in range(3)]
    return columns[0].reshape(x.shape), columns[1], columns[2]


def affine(x: Array, weight: Array | None, bias: Array | None, shape: tuple[int, ...]) -> Array:
    x = x if weight is None else x * weight.reshape(shape)
    return x if bias is None else x + bias.reshape(shape)


def expect_layer_norm(
    x: Array, shape: list[int], weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    leading = x.shape[: x.ndim - len(shape)]
    y, mean, rstd = by_rows(x, math.prod(leading), eps)
    statistics = leading + (1,) * len(shape)
    y = affine(y, weight, bias, tuple(shape))
    return y, mean.reshape(statistics), rstd.reshape(statistics)


def layer_norm(x: Array, trailing: int, which: str = "wb", **options: Any) -> RowCase:
    shape = list(x.shape[x.ndim - trailing :])
    weight = normal(tuple(shape), 2, shift=1) if "w" in which else None
    bias = normal(tuple(shape), 3) if "b" in which else None
    args = (x, shape, weight, bias, 1e-5)
    return RowCase(LAYER, args, expect_layer_norm, **{"outs": THREE, "atol": 4e-6, **options})


def layer_norm_cases() -> list[RowCase]:
    shapes: tuple[tuple[tuple[int, ...], int], ...] = (
        ((4, 128), 1),
        ((3, 7), 1),
        ((1, 40, 48), 1),
        ((2, 3, 5), 2),
        ((2, 3, 4), 3),
        ((2, 3, 5), 3),
        ((6,), 1),
        ((5, 1), 1),
        ((1, 2048), 1),
        ((2, 1031), 1),
        ((331, 16), 1),
        ((1, 2, 1, 3, 2, 1, 2, 4), 4),
        ((0, 8), 1),
    )
    cases = [layer_norm(normal(shape), trailing) for shape, trailing in shapes]
    cases += [
        layer_norm(normal((3, width)), 1, which, label=which or "plain")
        for width in (7, 8)
        for which in ("", "w", "b")
    ]
    # The mean is large against the deviation: float32 keeps 3 or 4 digits of x - mean.
    offset = (normal((5, 37)) * 8).round() / 8 + 4096
    cases += [layer_norm(offset, 1, rtol=1e-4, atol=1e-3, label="far from 0")]
    cases += [layer_norm(np.full((2, 12), 3.0, np.float32), 1, label="constant")]
    live = tuple(
        (normal(size, 7), normal((8,), 2), normal((8,), 3))
        for size in ((2, 5, 8), (4, 1, 8), (0, 5, 8), (4, 9, 8))
    )
    cases += [layer_norm(normal((4, 9, 8)), 1, live=live, label="live")]
    return cases


def expect_rms_norm(x: Array, weight: Array | float, eps: float) -> Array:
    if x.size == 0:
        return x * weight
    rows = x.reshape(-1, x.shape[-1]).tolist()
    scales = [1 / math.sqrt(math.fsum(v * v for v in row) / len(row) + eps) for row in rows]
    return x * np.array(scales).reshape(*x.shape[:-1], 1) * weight


def rms_norm(x: Array, eps: float = 1e-6, **options: Any) -> RowCase:
    weight = normal(x.shape[-1:], 2, shift=1)
    return RowCase(RMS, (x, weight, eps), expect_rms_norm, **options)


def rms_norm_cases() -> list[RowCase]:
    shapes = ((1, 1, 7, 896), (1, 2048), (1, 8192), (67, 64), (5, 100), (3, 9), (2, 1), (13,))
    cases = [rms_norm(normal(shape)) for shape in (*shapes, (2, 1, 3, 1, 2, 5), (0, 4), (3, 0))]
    sizes = ((1, 1, 64), (1, 5, 64), (1, 63, 64))
    live = tuple((normal(size, 7), normal((64,), 2)) for size in sizes)
    return [
        *cases,
        rms_norm(normal((3, 6), scale=1e-4), 1, label="eps is an int"),
        rms_norm(np.zeros((2, 5), np.float32), label="zeros"),
        rms_norm(normal((2, 33), scale=1e15), label="large"),
        rms_norm(normal((1, 63, 64)), live=live, label="live"),
    ]


def scaled_rms_norm(
    shape: tuple[int, ...], weight: tuple[int, ...], *sizes: Any, **options: Any
) -> RowCase:
    """By a weight of any shape; `sizes` of x and of the weight are for later calls."""
    live = tuple((normal(x, 7), normal(w, 8, shift=1)) for x, w in sizes)
    args = (normal(shape), normal(weight, 2, shift=1), 1e-6)
    return RowCase(RMS, args, expect_rms_norm, live=live, **options)


def scaled_rms_norm_cases() -> list[RowCase]:
    """Weights that are no vectors of a row, some of which have as many elements as such a vector.

    A gate, a scale per row, per sample, per head, per group, one for all, a column; weights of more
    dims or larger dims than x; then sizes that change, through those at which a weight looks like a
    vector.
    """
    shapes = (
        ((2, 7, 32), (2, 7, 32)),
        ((1, 7, 32), (1, 7, 1)),
        ((1, 32, 32), (1, 32, 1)),
        ((2, 7, 32), (2, 1, 32)),
        ((2, 7, 4, 8), (4, 8)),
        ((3, 4, 8), (4, 1)),
        ((2, 7, 32), ()),
        ((2, 7, 32), (1,)),
        ((2, 32, 32), (32, 1)),
        ((2, 3, 33), (1, 1, 33)),
        ((5, 9), (3, 5, 9)),
        ((1, 8), (6, 8)),
        ((5, 1), (3,)),
        ((13,), (4, 13)),
        ((0, 8), (0, 1)),
    )
    gate, sample, rows = (((n, 5, 8), (n, 5, 8)) for n in (4, 1, 3)), (4, 1, 0), (8, 1, 5)
    return [
        *(
            RowCase(UNSCALED, (normal(shape), 1e-6), lambda x, eps: expect_rms_norm(x, 1, eps))
            for shape in ((2, 7, 32), (5, 9))
        ),
        *(scaled_rms_norm(*pair) for pair in shapes),
        scaled_rms_norm((4, 5, 8), (4, 5, 8), *gate, label="live gate"),
        scaled_rms_norm(
            (4, 5, 8), (4, 1, 8), *(((n, 5, 8), (n, 1, 8)) for n in sample), label="live samples"
        ),
        scaled_rms_norm((8, 8), (8, 1), *(((n, 8), (n, 1)) for n in rows), label="live rows"),
    ]


def expect_group_norm(
    x: Array, weight: Array | None, bias: Array | None, *rest: Any
) -> tuple[Array, Array, Array]:
    *_, group, eps = rest
    y, mean, rstd = by_rows(x, x.shape[0] * group, eps)
    y = affine(y, weight, bias, (x.shape[1],) + (1,) * (x.ndim - 2))
    return y, mean.reshape(x.shape[0], group), rstd.reshape(x.shape[0], group)


def group_norm(x: Array, group: int, which: str = "wb", **options: Any) -> RowCase:
    n, c = x.shape[:2]
    weight = normal((c,), 2, shift=1) if "w" in which else None
    bias = normal((c,), 3) if "b" in which else None
    args = (x, weight, bias, n, c, math.prod(x.shape[2:]), group, 1e-5)
    return RowCase(GROUP, args, expect_group_norm, **{"outs": THREE, "atol": 4e-6, **options})


def group_norm_cases() -> list[RowCase]:
    shapes: tuple[tuple[tuple[int, ...], int], ...] = (
        ((2, 4, 3, 5), 2),
        ((1, 4, 3, 3), 1),
        ((1, 16, 16, 16), 4),
        ((2, 6, 7), 3),
        ((3, 6), 2),
        ((3, 6), 6 // 2),
        ((2, 4, 2, 3, 2), 2),
        ((1, 8, 4, 1, 3, 2), 4),
        ((1, 3, 50, 31), 1),
        ((0, 4, 3), 2),
    )
    cases = [group_norm(normal(shape), group) for shape, group in shapes]
    for which in ("", "w", "b"):
        label = which or "plain"
        cases += [group_norm(normal((2, 6, 5, 3)), 3, which, label=label)]
        cases += [group_norm(normal((2, 6, 4, 3)), 2, which, label=label)]
    live = tuple(
        (normal(size, 7), normal((6,), 2), normal((6,), 3))
        for size in ((1, 6, 5, 4), (2, 6, 3, 3), (2, 6, 1, 1), (2, 6, 5, 4))
    )
    return [*cases, group_norm(normal((2, 6, 5, 4)), 3, live=live, label="live")]


def expect_batch_norm(
    x: Array, weight: Array | None, bias: Array | None, *rest: Any
) -> tuple[Array, Array, Array]:
    mean, var, _, eps = rest
    y = np.empty(x.shape)
    for c in range(x.shape[1]):
        y[:, c] = (x[:, c] - mean[c]) / math.sqrt(var[c] + eps)
        y[:, c] = y[:, c] * (1 if weight is None else weight[c]) + (0 if bias is None else bias[c])
    return y, np.zeros(0), np.zeros(0)


def batch_norm(x: Array, which: str = "wb", **options: Any) -> RowCase:
    c = x.shape[1]
    weight = normal((c,), 2, shift=1) if "w" in which else None
    bias = normal((c,), 3) if "b" in which else None
    args = (x, weight, bias, normal((c,), 4), np.abs(normal((c,), 5)) + 0.1, 0.1, 1e-5)
    return RowCase(BATCH, args, expect_batch_norm, **{"outs": THREE, "atol": 1e-5, **options})


def batch_norm_cases() -> list[RowCase]:
    shapes = ((1, 16, 5, 7), (2, 3, 4, 5), (3, 5), (2, 3, 7), (2, 3, 2, 3, 4), (2, 1, 3), (0, 3, 2))
    cases = [batch_norm(normal(shape)) for shape in (*shapes, (1, 8, 40, 40))]
    cases += [
        batch_norm(normal(shape), which, label=which or "plain")
        for which in ("", "w", "b")
        for shape in ((2, 6, 5), (2, 3, 4))
    ]
    statistics = (normal((3,), 2), normal((3,), 3), normal((3,), 4), np.abs(normal((3,), 5)) + 1)
    sizes = ((1, 3, 5, 4), (2, 3, 1, 3), (2, 3, 5, 4))
    live = tuple((normal(size, 7), *statistics) for size in sizes)
    return [*cases, batch_norm(normal((2, 3, 5, 4)), live=live, label="live")]


def own_batch_norm(x: Array, which: str = "wb", **options: Any) -> RowCase:
    """By the statistics of the batch itself: channel by channel, in plain loops."""
    c = x.shape[1]
    weight = normal((c,), 2, shift=1) if "w" in which else None
    bias = normal((c,), 3) if "b" in which else None

    def expect(
        x: Array,
        weight: Array | None,
        bias: Array | None,
        training: bool,
        momentum: float,
        eps: float,
    ) -> tuple[Array, Array, Array]:
        out, means, rstds = np.zeros(x.shape), np.zeros(x.shape[1]), np.zeros(x.shape[1])
        for i in range(x.shape[1]):
            part = x[:, i]
            means[i] = math.fsum(part.reshape(-1)) / part.size
            squares = math.fsum((part.reshape(-1) - means[i]) ** 2) / part.size
            rstds[i] = 1 / math.sqrt(squares + eps)
            scale = 1 if weight is None else weight[i]
            out[:, i] = (part - means[i]) * rstds[i] * scale + (0 if bias is None else bias[i])
        return out, means, rstds

    args = (x, weight, bias, True, 0.1, 1e-5)
    return RowCase(OWN_BATCH, args, expect, **{"outs": THREE, "atol": 1e-5, **options})


OWN_BATCH = "aten._native_batch_norm_legit.no_stats"
OWN_BATCH_CASES = [
    *(
        own_batch_norm(normal(shape))
        for shape in ((1, 16, 5, 7), (1, 3, 4, 4), (1, 5, 9), (1, 1, 3))
    ),
    *(
        own_batch_norm(normal((1, 6, 2, 3, 4)), which, label=which or "plain")
        for which in ("", "w", "b")
    ),
    own_batch_norm(normal((1, 3, 50, 31))),
    own_batch_norm(
        normal((1, 6, 5, 4)),
        live=tuple(
            (normal(size, 7), normal((6,), 2), normal((6,), 3))
            for size in ((1, 6, 3, 3), (1, 6, 1, 1), (1, 6, 5, 4))
        ),
        label="live",
    ),
]


def special_cases() -> list[RowCase]:
    """A NaN or an inf in a row, as quads and as single elements; other rows stay unchanged."""
    cases = []
    for width in (7, 8):
        x = normal((3, width))
        x[0, 5], x[1, 2] = math.nan, math.inf
        cases += [layer_norm(x, 1, label="special"), rms_norm(x, label="special")]
    return cases


NORM_CASES = (
    layer_norm_cases()
    + rms_norm_cases()
    + scaled_rms_norm_cases()
    + group_norm_cases()
    + batch_norm_cases()
    + OWN_BATCH_CASES
    + special_cases()
)
