"""The mean of bytes over height and width, as XNNPACK computes it: (.., H, W) -> (.., 1, 1).

    scale = x_scale / out_scale * (1 / (H W))
    out = clamp(round(sum of x * scale + (out_zero - H W x_zero scale)), low, high)

The sum is an exact integer; all that follows is float32, rounded after each operation. (Compilers
for ARM may fuse the last product with its sum.) x and the output are int8 or uint8.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.int8.q8 import (
    REQUANTIZATION,
    check_bytes,
    read_bounds,
    read_scale,
    read_zero,
)
from webpte.engine.shapes import Dims
from webpte.errors import GraphError

Array = np.ndarray


class MeanScaling(NamedTuple):
    """The function from a sum to a mean in units of the output."""

    scale: float
    offset: float


def read_mean(args: Args, count: int) -> MeanScaling:
    x_zero = np.float32(read_zero(args, "x_zero", args.tensor("x")))
    out_zero = np.float32(read_zero(args, "out_zero", args.out))
    share = np.float32(1) / np.float32(max(count, 1))
    scale = read_scale(args, "x_scale") / read_scale(args, "out_scale") * share
    return MeanScaling(float(scale), float(out_zero - np.float32(count) * x_zero * scale))


def mean_shape(args: Args) -> tuple[Dims]:
    x = args.tensor("x")
    check_bytes(args, x, args.out)
    read_bounds(args)
    if x.rank < 2 or math.prod(x.dims[-2:]) == 0:
        raise GraphError(f"{args.call}: {list(x.dims)} has no height and width to take means of")
    read_mean(args, math.prod(x.dims[-2:]))
    return ((*x.dims[:-2], 1, 1),)


def lower_mean(args: Args) -> list[Dispatch]:
    x, out = args.tensor("x"), args.out
    if out.numel == 0:
        return []
    count, words = math.prod(x.dims[-2:]), quad_count(out.numel)
    low, high = read_bounds(args)
    return [
        Dispatch(
            kernel="q8_mean",
            bindings=(x.id, out.id),
            params=pack("2I4fI4x", out.numel, count, *read_mean(args, count), low, high, 0),
            grid=quad_grid(words),
            overrides=(("X_UNSIGNED", x.dtype.name == "uint8"),),
        )
    ]


def run_mean(args: Args) -> Array:
    x, out = args.array("x"), args.out
    scale, offset = read_mean(args, math.prod(x.shape[-2:]))
    sums = x.sum(axis=(-2, -1), dtype=np.int64, keepdims=True).astype(np.float32)
    low, high = read_bounds(args)
    return np.clip(np.rint(sums * np.float32(scale) + np.float32(offset)), low, high).astype(
        out.dtype.numpy
    )


register(
    "webpte.q8_mean.default",
    f"x: tensor, x_scale: number, x_zero: int, out_scale: number, {REQUANTIZATION} -> tensor",
    shape=mean_shape,
    lower=lower_mean,
    reference=run_mean,
)
