"""Outputs against expected ones: the numbers that decide whether two tensors agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from page.html.units import shape_text
from page.npy import Array

ATOL = RTOL = 1e-3  # what the operator catalogue of ExecuTorch takes for float32


@dataclass(frozen=True)
class Comparison:
    """The difference of two arrays; `agrees`: |actual - expected| <= atol + rtol·|expected|
    everywhere, NaN equal to NaN."""

    against: str
    agrees: bool
    wrong: int
    count: int
    max_abs: float
    max_rel: float
    worst: tuple[int, ...]
    problem: str = ""


def compare(
    actual: Array, expected: Array, against: str, *, atol: float = ATOL, rtol: float = RTOL
) -> Comparison:
    if actual.shape != expected.shape:
        problem = (
            f"the shapes differ: {shape_text(actual.shape)} here, "
            f"{shape_text(expected.shape)} in {against}"
        )
        return Comparison(against, False, actual.size, actual.size, 0.0, 0.0, (), problem)
    if actual.size == 0:
        return Comparison(against, True, 0, 0, 0.0, 0.0, ())
    one = actual.astype(np.float64)
    two = expected.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        close = np.isclose(one, two, atol=atol, rtol=rtol, equal_nan=True)
        same = (one == two) | (np.isnan(one) & np.isnan(two))
        gap = np.where(same, 0.0, np.abs(one - two))
    gap = np.where(np.isnan(gap), np.inf, gap)
    size = np.abs(two)
    near_zero = ~np.isfinite(size) | (size < atol)
    relative = np.divide(gap, size, out=np.zeros_like(gap), where=~near_zero)
    worst = np.unravel_index(int(gap.argmax()), gap.shape)
    return Comparison(
        against,
        bool(close.all()),
        int((~close).sum()),
        actual.size,
        float(gap.max()),
        float(relative.max()),
        tuple(int(index) for index in worst),
    )
