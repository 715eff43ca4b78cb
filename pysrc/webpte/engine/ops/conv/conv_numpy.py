"""Convolutions in NumPy, as matrix multiplications."""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from webpte.engine.ops.conv.conv_geometry import Convolution
from webpte.engine.ops.core.records import ceil_div

Array = np.ndarray

COLUMN_ELEMENTS = 1 << 17  # inputs per multiplication, to stay in the CPU's caches


def times(weight: Array, x: Array) -> Array:
    """Multiply (groups, O, C) by (B, groups, C, H, W)."""
    flat = weight @ x.reshape(*x.shape[:3], math.prod(x.shape[3:]))
    return flat.reshape(*flat.shape[:3], *x.shape[3:])


def add_taps(conv: Convolution, x: Array, weight: Array) -> Array:
    """Gather the inputs under the kernel into columns and multiply (im2col).

    Each step takes some rows of an image.
    """
    groups, channels, (height, width) = conv.groups, conv.out_channels, conv.out_size
    terms = conv.in_channels * math.prod(conv.kernel)
    result = np.empty((conv.batch, groups, channels, height, width))
    padded = np.pad(x, [(0, 0)] * 3 + [(p, p) for p in conv.padding])
    reach = [(k - 1) * d + 1 for k, d in zip(conv.kernel, conv.dilation, strict=True)]
    (down, right), (i, j) = conv.stride, conv.dilation
    under = sliding_window_view(padded, reach, axis=(3, 4))[..., ::down, ::right, ::i, ::j]
    taps = under.transpose(0, 1, 2, 5, 6, 3, 4)  # (B, groups, C, *kernel, H, W)
    rows = weight.reshape(groups, channels, terms)
    step = max(1, COLUMN_ELEMENTS // max(1, groups * terms * width))
    for image, block in np.ndindex(conv.batch, ceil_div(height, step)):
        lines = slice(block * step, (block + 1) * step)
        part = result[image, :, :, lines]  # (groups, O, lines, W)
        columns = taps[image, ..., lines, :].reshape(groups, terms, part.shape[2] * width)
        part[...] = (rows @ columns).reshape(part.shape)
    return result


def add_transposed(conv: Convolution, x: Array, weight: Array) -> Array:
    """Add each input to the outputs under its taps, then crop by the padding."""
    full = [
        max((n - 1) * s + d * (k - 1) + 1, o + p)
        for n, s, d, k, o, p in zip(
            *(conv.in_size, conv.stride, conv.dilation, conv.kernel, conv.out_size, conv.padding),
            strict=True,
        )
    ]
    result = np.zeros((conv.batch, conv.groups, conv.out_channels, *full))
    for tap in np.ndindex(*conv.kernel):
        under = tuple(
            slice(at * dilation, at * dilation + (size - 1) * stride + 1, stride)
            for at, size, stride, dilation in zip(
                tap, conv.in_size, conv.stride, conv.dilation, strict=True
            )
        )
        result[..., under[0], under[1]] += times(weight[:, :, :, tap[0], tap[1]], x)
    (top, left), (height, width) = conv.padding, conv.out_size
    return result[..., top : top + height, left : left + width]
