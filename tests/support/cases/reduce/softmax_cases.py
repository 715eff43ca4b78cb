"""Cases of softmax and log softmax. Expectations loop over rows in plain Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.reduce.reduce_cases import SPECIAL
from support.cases.row_cases import RowCase, normal

SOFTMAX, LOG_SOFTMAX = "aten._softmax.default", "aten._log_softmax.default"
NAN, INF = math.nan, math.inf


def softmax_row(row: list[float]) -> list[float]:
    top = max(row)
    exponentials = [math.exp(v - top) for v in row]
    return [e / math.fsum(exponentials) for e in exponentials]


def log_softmax_row(row: list[float]) -> list[float]:
    top = max(row)
    logarithm = math.log(math.fsum(math.exp(v - top) for v in row))
    return [v - top - logarithm for v in row]


def softmax(op: str, x: Array, dim: int, **options: Any) -> RowCase:
    function = softmax_row if op == SOFTMAX else log_softmax_row

    def expect(x: Array, dim: int, _: bool) -> Array:
        if x.ndim == 0:
            return np.array(function([float(x)])[0])
        rows = np.moveaxis(x, dim, -1)
        flat = rows.reshape(-1, max(x.shape[dim], 1)).tolist() if x.size else []
        return np.moveaxis(np.array([function(row) for row in flat]).reshape(rows.shape), -1, dim)

    return RowCase(op, (x, dim, False), expect, **{"atol": 2e-6, **options})


SHAPES: tuple[tuple[tuple[int, ...], int], ...] = (
    ((), 0),
    ((), -1),
    ((1,), 0),
    ((7,), -1),
    ((5, 1), 1),
    ((2, 5, 7), 0),
    ((2, 5, 7), 1),
    ((2, 5, 7), 2),
    ((2, 5, 8), -1),
    ((2, 3, 17, 17), -1),
    ((2, 3, 24, 24), -2),
    ((331, 4), 1),
    ((4, 331), 0),
    ((3, 1025), 1),
    ((3, 2048), 1),
    ((1, 5000), -1),
    ((1000, 3), 0),
    ((2, 1, 3, 1, 2, 3, 1, 2), 5),
    ((0, 4), 1),
    ((3, 0), 1),
    ((2, 0, 3), 0),
)


def shape_cases() -> list[RowCase]:
    cases = [
        softmax(op, normal(shape, scale=3), dim)
        for op in (SOFTMAX, LOG_SOFTMAX)
        for shape, dim in SHAPES
    ]
    for op in (SOFTMAX, LOG_SOFTMAX):
        # 1e-4 of 1e4 and less: exact in float64, and what float32 has left of x - max.
        cases += [softmax(op, normal((3, 9), scale=1e4), -1, rtol=1e-5, atol=1e-3, label="large")]
        cases += [softmax(op, normal((3, 8), shift=-1e4), -1, rtol=1e-4, label="far from 0")]
        cases += [softmax(op, normal((6, 37), scale=1e-6), -1, label="nearly equal")]
    return cases


# As PyTorch 2.13 gives them for SPECIAL.
TORCH = {
    SOFTMAX: [
        [NAN] * 4,
        [NAN] * 4,
        [NAN] * 4,
        [0.25] * 4,
        [0.5, 0.5, 0, 0],
        [0.5, 0.5, 0, 0],
        [0, 0.2689414322376251, 0, 0.7310585975646973],
    ],
    LOG_SOFTMAX: [
        [NAN] * 4,
        [NAN] * 4,
        [NAN] * 4,
        [-1.3862943649291992] * 4,
        [-0.6931471824645996, -0.6931471824645996, -INF, -INF],
        [-0.6931471824645996, -0.6931471824645996, -3e38, -3e38],
        [-INF, -1.31326162815094, -INF, -0.31326165795326233],
    ],
}


def special_cases() -> list[RowCase]:
    """Build cases of quads, of single elements, and of elements apart from each other."""
    cases = []
    for op, rows in TORCH.items():
        wanted = np.array(rows)
        cases += [
            RowCase(op, (SPECIAL, 1, False), lambda *_, w=wanted: w, label="special"),
            RowCase(op, (SPECIAL.T.copy(), 0, False), lambda *_, w=wanted: w.T, label="special"),
        ]
        padded = np.pad(SPECIAL, ((0, 0), (0, 1)), constant_values=-INF)
        last = np.where(np.isnan(wanted[:, :1]), NAN, 0 if op == SOFTMAX else -INF)
        wider = np.concatenate([wanted, last], axis=1)
        cases += [RowCase(op, (padded, 1, False), lambda *_, w=wider: w, label="special, odd")]
        masked = np.where(np.arange(600) % 3 == 0, normal((4, 600)), -INF).astype(np.float32)
        cases += [softmax(op, masked, -1, label="masked")]
    return cases


def dynamic_cases() -> list[RowCase]:
    sizes = ((8, 13, 12), (3, 13, 12), (8, 5, 8), (1, 1, 1), (0, 13, 12), (8, 13, 12))
    live = tuple((normal(size, i),) for i, size in enumerate(sizes[1:]))
    return [
        softmax(op, normal(sizes[0]), dim, live=live, label="live")
        for op in (SOFTMAX, LOG_SOFTMAX)
        for dim in (0, 1, 2)
        if dim != 0
    ]


SOFTMAX_CASES = shape_cases() + special_cases() + dynamic_cases()
