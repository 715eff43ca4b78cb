"""Special functions by polynomials, to some units of float32's last place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

# Giles, "Approximating the erfinv function": in w = -log(1 - x^2), around 2.5 and sqrt(w) - 3.
_NEAR = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_FAR = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
_I0_SMALL = (0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0)
_I0_LARGE = (
    *(0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565, 0.00225319),
    *(0.01328592, 0.39894228),
)
# Lanczos, with g = 7.
_LANCZOS = (
    *(676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059),
    *(12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7),
)


def _polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    total = torch.full_like(x, coefficients[0])
    for each in coefficients[1:]:
        total = total * x + each
    return total


def erfinv(x: Tensor) -> Tensor:
    w = -torch.log((1 - x) * (1 + x))
    near = _polynomial(w - 2.5, _NEAR)
    far = _polynomial(torch.sqrt(w.clamp(min=5.0)) - 3, _FAR)
    found = torch.where(w < 5, near, far) * x
    found = torch.where(torch.abs(x) == 1, x * math.inf, found)
    return torch.where(torch.abs(x) > 1, math.nan, found)


def ndtri(x: Tensor) -> Tensor:
    return erfinv(2 * x - 1) * math.sqrt(2)


def lgamma(x: Tensor) -> Tensor:
    small = x < 0.5
    z = torch.where(small, 1 - x, x) - 1
    series = torch.full_like(z, 0.99999999999980993)
    for number, each in enumerate(_LANCZOS):
        series = series + each / (z + (number + 1))
    t = z + 7.5
    found = math.log(2 * math.pi) / 2 + (z + 0.5) * torch.log(t) - t + torch.log(series)
    mirrored = math.log(math.pi) - torch.log(torch.abs(torch.sin(math.pi * x))) - found
    return torch.where(small, mirrored, found)


def digamma(x: Tensor) -> Tensor:
    mirror = x < 0
    z = torch.where(mirror, 1 - x, x)
    total = torch.zeros_like(z)
    for number in range(6):  # the series below is for numbers above 6
        total = total - 1 / (z + number)
    z = z + 6
    square = 1 / (z * z)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    found = total + torch.log(z) - 0.5 / z - series
    return torch.where(mirror, found - math.pi / torch.tan(math.pi * x), found)


def i0(x: Tensor) -> Tensor:
    """Return the modified Bessel function of order 0 (Abramowitz and Stegun 9.8.1 and 9.8.2)."""
    size = torch.abs(x)
    t = (size / 3.75) ** 2
    small = _polynomial(t, _I0_SMALL)
    large = torch.exp(size) / torch.sqrt(size) * _polynomial(3.75 / size.clamp(min=1.0), _I0_LARGE)
    return torch.where(size < 3.75, small, large)


def table() -> dict[Any, Callable[..., Any]]:
    return {
        aten.erfinv.default: erfinv,
        aten.special_erfinv.default: erfinv,
        aten.special_ndtri.default: ndtri,
        aten.i0.default: i0,
        aten.special_i0.default: i0,
        aten.lgamma.default: lgamma,
        aten.special_gammaln.default: lgamma,
        aten.digamma.default: digamma,
        aten.special_digamma.default: digamma,
        aten.special_psi.default: digamma,
    }
