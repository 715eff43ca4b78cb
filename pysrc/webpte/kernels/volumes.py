"""Kernels of volumes: pools and convolutions over windows of depth, height and width.

A window starts at o * stride - padding and has kernel elements, dilation apart; one number stands
for all three dims. The padding is no part of a maximum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from webpte.errors import ExecutionError
from webpte.kernels.eager import run_op
from webpte.kernels.registry import OutSpec, register
from webpte.shapes import window_count

Array = np.ndarray
Three = tuple[int, int, int]


def three(numbers: Sequence[int]) -> Three:
    if len(numbers) not in (1, 3):
        raise ExecutionError(f"{list(numbers)} must be 1 or 3 numbers")
    return (numbers[0], numbers[len(numbers) // 2], numbers[-1])


@dataclass(frozen=True)
class Windows:
    """Where the windows of one call lie, dim by dim."""

    sizes: Three
    counts: Three
    kernel: Three
    stride: Three
    padding: Three
    dilation: Three

    def taps(self, x: Array, fill: float) -> Iterator[Array]:
        """The elements at each place of the windows, [..., *counts], with `fill` outside."""
        ends = [
            max((n - 1) * s + d * (k - 1) + 1 - size - p, 0)
            for n, s, d, k, size, p in zip(
                self.counts,
                self.stride,
                self.dilation,
                self.kernel,
                self.sizes,
                self.padding,
                strict=True,
            )
        ]
        widths = [(0, 0)] * (x.ndim - 3) + list(zip(self.padding, ends, strict=True))
        wide = np.pad(x, widths, constant_values=fill)
        for place in product(*map(range, self.kernel)):
            starts = [k * d for k, d in zip(place, self.dilation, strict=True)]
            cuts: Any = tuple(
                slice(start, start + (n - 1) * s + 1, s)
                for start, n, s in zip(starts, self.counts, self.stride, strict=True)
            )
            yield wide[(..., *cuts)]


def windows_of(
    x: Array,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Windows:
    sizes, window = three(x.shape[-3:]), three(kernel)
    steps, borders, apart = three(stride or kernel), three(padding), three(dilation)
    counts = [
        window_count(*along, ceil_mode)
        for along in zip(sizes, window, steps, borders, apart, strict=True)
    ]
    if min(counts) < 1:
        raise ExecutionError(f"windows of {list(window)} do not fit {list(x.shape)}")
    return Windows(sizes, three(counts), window, steps, borders, apart)


def average(
    x: Array,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Array:
    windows = windows_of(x, kernel, stride, padding, [1], ceil_mode)
    total = sum(windows.taps(x.astype(np.float64), 0.0))
    counted = np.ones(x.shape[-3:])
    if count_include_pad:
        counted = np.pad(counted, [(p, p) for p in windows.padding], constant_values=1.0)
        grown = three(counted.shape)
        inside = Windows(
            grown, windows.counts, windows.kernel, windows.stride, (0, 0, 0), (1, 1, 1)
        )
        count = sum(inside.taps(counted, 0.0))
    else:
        count = sum(windows.taps(counted, 0.0))
    return np.asarray(total / (divisor or count)).astype(x.dtype)


def maximum(
    x: Array,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[Array, Array]:
    """With the place of each maximum, counted through depth, height and width. NaN wins."""
    windows = windows_of(x, kernel, stride, padding, dilation, ceil_mode)
    volume = math.prod(windows.sizes)
    numbers = np.arange(volume, dtype=np.int64).reshape(windows.sizes)
    values = np.zeros((*x.shape[:-3], *windows.counts), x.dtype)
    places = np.full(values.shape, -1)
    for tap, where in zip(windows.taps(x, 0), windows.taps(numbers, -1), strict=True):
        better = (where >= 0) & ((tap > values) | (tap != tap) | (places < 0))
        values, places = np.where(better, tap, values), np.where(better, where, places)
    return values, places


# Convolutions


def convolution(
    out: OutSpec,
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Array:
    """Those of volumes are computed here, the others as delegates do."""
    if weight.ndim != 5:
        call = (x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
        return run_op("aten.convolution.default", call, [(out.dtype, out.limits)])[0]
    wide = x.astype(np.float64).reshape(x.shape[0], groups, -1, *x.shape[2:])
    weights = weight.astype(np.float64).reshape(groups, -1, *weight.shape[1:])
    if transposed:
        result = spread_out(wide, weights, stride, padding, dilation, output_padding)
    else:
        result = drawn_in(wide, weights, stride, padding, dilation)
    result = result.reshape(x.shape[0], -1, *result.shape[3:])
    if bias is not None:
        result = result + bias.reshape(-1, 1, 1, 1)
    return result.astype(x.dtype)


def drawn_in(
    x: Array,
    weights: Array,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Array:
    """x [b, groups, in, *sizes], weights [groups, out, in, *kernel] -> [b, groups, out, *counts]"""
    kernel = three(weights.shape[-3:])
    windows = windows_of(x, kernel, stride, padding, dilation, False)
    result = np.zeros((*x.shape[:2], weights.shape[1], *windows.counts))
    for place, tap in zip(np.ndindex(kernel), windows.taps(x, 0.0), strict=True):
        result += np.einsum("bgi...,goi->bgo...", tap, weights[(..., *place)])
    return result


def spread_out(
    x: Array,
    weights: Array,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[int],
) -> Array:
    """x [b, groups, in, *sizes], weights [groups, in, out, *kernel] -> [b, groups, out, *sizes]"""
    kernel, steps, apart = three(weights.shape[-3:]), three(stride), three(dilation)
    more, borders = three(output_padding), three(padding)
    spans = [(size - 1) * s + 1 for size, s in zip(x.shape[-3:], steps, strict=True)]
    reach = [d * (k - 1) for k, d in zip(kernel, apart, strict=True)]
    full = [a + b + c for a, b, c in zip(spans, reach, more, strict=True)]
    result = np.zeros((*x.shape[:2], weights.shape[2], *full))
    for place in np.ndindex(kernel):
        starts = [k * d for k, d in zip(place, apart, strict=True)]
        cuts: Any = tuple(slice(a, a + n, s) for a, n, s in zip(starts, spans, steps, strict=True))
        result[(..., *cuts)] += np.einsum("bgi...,gio->bgo...", x, weights[(..., *place)])
    inner: Any = tuple(slice(p, size - p) for p, size in zip(borders, full, strict=True))
    return result[(..., *inner)]


register(
    "aten::convolution.out",
    "input, weight, bias, stride, padding, dilation, transposed, output_padding, groups",
    convolution,
    typed=True,
    notes="`aten.convolution.default`, but for volumes",
    op="aten.convolution.default",
    heavy=True,
)
WINDOW = "self, kernel_size, stride, padding"
register(
    "aten::avg_pool3d.out", f"{WINDOW}, ceil_mode, count_include_pad, divisor_override", average
)
register("aten::max_pool3d_with_indices.out", f"{WINDOW}, dilation, ceil_mode", maximum, outputs=2)
