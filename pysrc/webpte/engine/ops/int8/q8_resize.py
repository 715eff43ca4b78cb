"""Bytes resized by interpolation, as XNNPACK does: (B, C, H, W) -> (B, C, *output_size).

    at = y * scale + (scale / 2 - 1 / 2), from 0 to H - 1; scale = H / OH
    `align_corners`   at = y * scale, scale = (H - 1) / (OH - 1), or H of a single row
    `legacy`          at = y * scale

Places are float32, rounded after each operation (compilers for ARM may fuse them); weights are
integers, in steps of 1 / 2048, and halves of the result are rounded up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.int8.q8 import check_bytes
from webpte.engine.shapes import Dims
from webpte.errors import GraphError

Array = np.ndarray

WEIGHT_BITS = 11  # also in wgsl/int8/q8_resize.wgsl
MOST = 2**24  # float32 holds every smaller place


class Axis(NamedTuple):
    """The places of the outputs along an axis: place * scale + offset."""

    scale: float
    offset: float


def read_axis(args: Args, size: int, out_size: int) -> Axis:
    align, legacy = args.flag("align_corners"), args.flag("legacy")
    less = int(align and out_size != 1)
    scale = np.float32(size - less) / np.float32(out_size - less)
    half = np.float32(0.5)
    return Axis(float(scale), 0 if align or legacy else float(half * scale - half))


def resized_shape(args: Args) -> tuple[Dims]:
    x, sizes = args.tensor("x"), args.integers("output_size")
    check_bytes(args, x, args.out)
    if x.dtype.name != args.out.dtype.name:
        raise GraphError(f"{args.call}: {x.dtype.name} cannot be resized to {args.out.dtype.name}")
    all_sizes = (*x.dims[2:], *sizes)
    if x.rank != 4 or len(sizes) != 2 or not 0 < min(all_sizes) <= max(all_sizes) < MOST:
        raise GraphError(f"{args.call}: {list(x.dims)} cannot be resized to {sizes}")
    return ((*x.dims[:2], *sizes),)


def read_axes(args: Args) -> list[Axis]:
    sizes = zip(args.tensor("x").dims[2:], args.out.dims[2:], strict=True)
    return [read_axis(args, *pair) for pair in sizes]


def lower_resize(args: Args) -> list[Dispatch]:
    x, out = args.tensor("x"), args.out
    if out.numel == 0:
        return []
    words, (h, w) = quad_count(out.numel), read_axes(args)
    numbers = (h.scale, w.scale, h.offset, w.offset)
    return [
        Dispatch(
            kernel="q8_resize",
            bindings=(x.id, out.id),
            params=pack("2I4I4f8x", out.numel, 0, *x.dims[2:], *out.dims[2:], *numbers),
            grid=quad_grid(words),
            overrides=(("X_UNSIGNED", x.dtype.name == "uint8"),),
        )
    ]


def run_resize(args: Args) -> Array:
    x = args.array("x").astype(np.int64)
    for dim, axis in zip((3, 2), reversed(read_axes(args)), strict=True):
        places, last = np.arange(args.out.dims[dim], dtype=np.float32), x.shape[dim] - 1
        at = places * np.float32(axis.scale) + np.float32(axis.offset)
        at = np.minimum(np.maximum(at, np.float32(0)), np.float32(last))
        before = at.astype(np.int64)
        weight = np.rint((at - before.astype(np.float32)) * np.float32(1 << WEIGHT_BITS))
        weight = weight.astype(np.int64).reshape([-1 if i == dim else 1 for i in range(4)])
        first, second = x.take(before, dim), x.take(np.minimum(before + 1, last), dim)
        x = (first << WEIGHT_BITS) + (second - first) * weight
    half = 1 << (2 * WEIGHT_BITS - 1)
    return ((x + half) >> (2 * WEIGHT_BITS)).astype(args.out.dtype.numpy)


register(
    "webpte.q8_resize_bilinear2d.default",
    "x: tensor, output_size: ints, align_corners: bool, legacy: bool = False -> tensor",
    shape=resized_shape,
    lower=lower_resize,
    reference=run_resize,
)
