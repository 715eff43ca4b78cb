"""Fourier transforms as products with matrices, which a GPU computes fast.

A transform of a short row is a single product with cosines and sines. A longer row of n1 * n2
elements becomes a table (n1, n2): its columns are transformed, multiplied by twiddle factors, and
its rows are transformed (Cooley and Tukey's four steps). A row of a large prime length becomes a
convolution of twice that length (Bluestein). Values are pairs of real tensors; matrices are
computed in float64, and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray[Any, np.dtype[Any]]
Table = Callable[[str, torch.dtype, Callable[[], Array]], Tensor]
Pair = tuple[Tensor, Tensor]

# Longest rows of a single product; two products of shorter rows take less time and room.
_MOST_REAL, _MOST_COMPLEX, _MOST_PRIME = 512, 256, 512


class Fourier:
    """Transforms of the last dim. `table` keeps the constants of a program, by name and dtype."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def transform(self, re: Tensor, im: Tensor | None, sign: int, kept: int | None = None) -> Pair:
        """Sum x[j] exp(sign 2 pi i j k / n) over j, for the first `kept` of all k.

        `im` is None for real tensors.
        """
        n = int(re.shape[-1])
        count = n if kept is None else kept
        if _is_short(n, _MOST_REAL if im is None else _MOST_COMPLEX):
            return self._product(re, im, sign, count)
        long = self._bluestein if _factor(n) == 1 else self._four_steps
        a, b = long(re, im, sign)
        return (a, b) if count == n else (a[..., :count], b[..., :count])

    def to_real(self, re: Tensor, im: Tensor, n: int) -> Tensor:
        """Return `n` real numbers, n times too large, of the first n // 2 + 1 of their spectrum.

        The imaginary parts of the first element, and of the last one of an even n, do not count.
        """
        re, im = _sized(re, n // 2 + 1), _sized(im, n // 2 + 1)
        if _is_short(n, _MOST_REAL):
            matrix = self._table(f"c2r_{n}", re.dtype, lambda: _to_real(n))
            return torch.cat([re, im], -1) @ matrix
        mirrored = slice(1, (n + 1) // 2)
        re = torch.cat([re, re[..., mirrored].flip(-1)], -1)
        im = torch.cat([im, -im[..., mirrored].flip(-1)], -1)
        return self.transform(re, im, 1)[0]

    def _product(self, re: Tensor, im: Tensor | None, sign: int, kept: int) -> Pair:
        n = int(re.shape[-1])
        name = f"{'r' if im is None else 'c'}2c_{_way(sign)}_{n}_{kept}"
        matrix = self._table(name, re.dtype, lambda: _matrix(n, kept, sign, im is None))
        found = (re if im is None else torch.cat([re, im], -1)) @ matrix
        return found[..., :kept], found[..., kept:]

    def _four_steps(self, re: Tensor, im: Tensor | None, sign: int) -> Pair:
        n, lead = int(re.shape[-1]), re.shape[:-1]
        first = _factor(n)

        def columns(part: Tensor) -> Tensor:
            return part.reshape(*lead, first, n // first).transpose(-1, -2)

        a, b = self.transform(columns(re), None if im is None else columns(im), sign)
        a, b = _times((a, b), self._constants(f"twiddle_{_way(sign)}_{n}", re, _twiddle(n, sign)))
        a, b = self.transform(a.transpose(-1, -2), b.transpose(-1, -2), sign)
        return a.transpose(-1, -2).reshape(*lead, n), b.transpose(-1, -2).reshape(*lead, n)

    def _bluestein(self, re: Tensor, im: Tensor | None, sign: int) -> Pair:
        n = int(re.shape[-1])
        m = _smooth(2 * n - 1)
        given = np.exp(sign * 1j * np.pi * (np.arange(n, dtype=np.int64) ** 2 % (2 * n)) / n)
        around = np.zeros(m, complex)
        around[:n] = given.conj()
        around[m - n + 1 :] = given[:0:-1].conj()
        chirp = self._constants(f"chirp_{_way(sign)}_{n}", re, given)
        spectrum = self._constants(f"chirp_spectrum_{_way(sign)}_{n}", re, np.fft.fft(around) / m)
        a, b = (re * chirp[0], re * chirp[1]) if im is None else _times((re, im), chirp)
        a, b = (torch.nn.functional.pad(part, (0, m - n)) for part in (a, b))
        a, b = self.transform(*_times(self.transform(a, b, -1), spectrum), 1)
        return _times((a[..., :n], b[..., :n]), chirp)

    def _constants(self, name: str, like: Tensor, values: Array) -> Pair:
        return (
            self._table(f"{name}_real", like.dtype, lambda: values.real),
            self._table(f"{name}_imag", like.dtype, lambda: values.imag),
        )


def _times(x: Pair, y: Pair) -> Pair:
    (a, b), (c, d) = x, y
    return a * c - b * d, a * d + b * c


def _way(sign: int) -> str:
    return "forward" if sign < 0 else "inverse"


def _is_short(n: int, most: int) -> bool:
    return n <= most or (n <= _MOST_PRIME and _factor(n) == 1)


def _factor(n: int) -> int:
    """Return the largest divisor up to the square root."""
    return next(each for each in range(isqrt(n), 0, -1) if n % each == 0)


def _smooth(least: int) -> int:
    """Return the smallest power of 2, or 3 or 5 times it, that is not less."""
    power = 1 << (least - 1).bit_length()
    return min(each for each in (power, power * 3 // 4, power * 5 // 8) if each >= least)


def _angles(n: int, rows: int, columns: int) -> Array:
    """Return 2 pi j k / n; the product is reduced as an integer, which loses nothing."""
    products = np.outer(np.arange(rows, dtype=np.int64), np.arange(columns, dtype=np.int64)) % n
    return products * (2 * np.pi / n)


def _matrix(n: int, kept: int, sign: int, real: bool) -> Array:
    angles = _angles(n, n, kept)
    cos, sin = np.cos(angles), sign * np.sin(angles)
    return np.hstack([cos, sin]) if real else np.block([[cos, sin], [-sin, cos]])


def _to_real(n: int) -> Array:
    angles = _angles(n, n // 2 + 1, n)
    times = np.full((n // 2 + 1, 1), 2.0)  # the other half of the spectrum is the same
    times[0] = 1
    if n % 2 == 0:
        times[-1] = 1
    return np.vstack([times * np.cos(angles), -times * np.sin(angles)])


def _twiddle(n: int, sign: int) -> Array:
    first = _factor(n)
    return np.exp(sign * 1j * _angles(n, n // first, first))


def _sized(x: Tensor, size: int) -> Tensor:
    """Return the first elements of the last dim, with zeros after them."""
    missing = size - int(x.shape[-1])
    return torch.nn.functional.pad(x, (0, missing)) if missing > 0 else x[..., :size]
