"""Convolutions of volumes, for conv.py: input (B, C, D, H, W), weight (O, C / groups, *kernel).

Transposed convolutions have weights (C, O / groups, *kernel). A single plain kernel: four channels
of four neighbouring outputs per invocation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import WORKGROUP_SIZE, float_type
from webpte.engine.ops.core.records import Dispatch, ceil_div, fold_grid, pack
from webpte.engine.ops.pool.pool3d import three, windows_for, windows_of
from webpte.engine.shapes import Dims
from webpte.errors import GraphError, UnsupportedError

Array = np.ndarray

RANK = 5  # rank of the tensors
CHANNELS, RUN = 4, 4  # per invocation


def is_volume(args: Args) -> bool:
    return args.tensor("input").rank == RANK


def volume_shape(args: Args) -> Dims:
    x, weight, bias = args.tensor("input"), args.tensor("weight"), args.optional_tensor("bias")
    groups, transposed = args.integer("groups"), args.flag("transposed")
    if weight.rank != RANK or groups < 1 or weight.dims[0] % groups:
        raise GraphError(
            f"{args.call}: weight {list(weight.dims)} in {groups} groups does not fit an input "
            f"{list(x.dims)}"
        )
    taken = weight.dims[0] if transposed else weight.dims[1] * groups
    given = weight.dims[1] * groups if transposed else weight.dims[0]
    if taken != x.dims[1] or (bias is not None and bias.dims != (given,)):
        raise GraphError(
            f"{args.call}: {taken} channels of {list(x.dims)}, and {given} of the bias"
        )
    kernel, stride, padding = weight.dims[2:], args.integers("stride"), args.integers("padding")
    if not transposed:
        windows = windows_for(args, kernel, stride, padding, args.integers("dilation"))
        return (x.dims[0], given, *windows.counts)
    lists = [args.integers(n) for n in ("stride", "padding", "dilation", "output_padding")]
    if any(len(numbers) not in (1, 3) for numbers in lists):
        raise GraphError(f"{args.call}: {lists} do not fit 3 spatial dims")
    sizes = [
        (size - 1) * s - 2 * p + d * (k - 1) + more + 1
        for size, k, s, p, d, more in zip(
            *(x.dims[2:], kernel, *map(three, lists)),
            strict=True,
        )
    ]
    if min(sizes) < 1:
        raise GraphError(f"{args.call}: a kernel of {list(kernel)} does not fit {list(x.dims)}")
    return (x.dims[0], given, *sizes)


def lower_volume(args: Args, bounds: tuple[float, float]) -> list[Dispatch]:
    x, weight, bias, out = (
        *(args.tensor("input"), args.tensor("weight")),
        *(args.optional_tensor("bias"), args.out),
    )
    if not all(t is None or t.dtype.is_float for t in (x, weight, bias, out)):
        raise UnsupportedError(
            f"{args.call}: {x.dtype.name} {weight.dtype.name}; only floats are supported"
        )
    if out.numel == 0:
        return []
    stride, padding, dilation = (
        three(args.integers(name)) for name in ("stride", "padding", "dilation")
    )
    groups, transposed = args.integer("groups"), args.flag("transposed")
    channels, volume = out.dims[1] // groups, math.prod(out.dims[2:])
    blocks, runs = ceil_div(channels, CHANNELS), ceil_div(volume, RUN)
    return [
        Dispatch(
            kernel="conv3d",
            bindings=(x.id, weight.id, None if bias is None else bias.id, out.id),
            params=pack(
                "3iI3iI3iI3iI3iI3iI2f",
                *(*x.dims[2:], x.dims[0], *out.dims[2:], groups, *weight.dims[2:]),
                x.dims[1] // groups,
                *(*stride, channels, *padding, blocks, *dilation, runs, *bounds),
            ),
            grid=fold_grid(ceil_div(x.dims[0] * groups * blocks * runs, WORKGROUP_SIZE)),
            types=(("FLOAT", float_type(args, x, weight, bias, out)),),
            overrides=(("HAS_BIAS", int(bias is not None)), ("TRANSPOSED", int(transposed))),
        )
    ]


def run_volume(args: Args) -> Array:
    x, groups = args.array("input"), args.integer("groups")
    weight, bias = args.array("weight"), args.optional_array("bias")
    wide = x.astype(np.float64).reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    weights = weight.astype(np.float64).reshape(groups, -1, *weight.shape[1:])
    stride, padding, dilation = (args.integers(name) for name in ("stride", "padding", "dilation"))
    if args.flag("transposed"):
        extra = args.integers("output_padding")
        result = scatter_taps(wide, weights, stride, padding, dilation, extra)
    else:
        result = gather_taps(wide, weights, stride, padding, dilation)
    result = result.reshape(args.out.dims)
    return result if bias is None else result + bias.astype(np.float64).reshape(-1, 1, 1, 1)


def gather_taps(
    x: Array,
    weights: Array,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Array:
    """Convolve x [b, groups, in, *sizes] with [groups, out, in, *kernel]."""
    kernel = three(weights.shape[-3:])
    windows = windows_of(x.shape, kernel, stride, padding, dilation, False)
    result = np.zeros((*x.shape[:2], weights.shape[1], *windows.counts))
    for place, tap in zip(np.ndindex(kernel), windows.taps(x, 0.0), strict=True):
        result += np.einsum("bgi...,goi->bgo...", tap, weights[(..., *place)])
    return result


def scatter_taps(
    x: Array,
    weights: Array,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[int],
) -> Array:
    """Convolve x [b, groups, in, *sizes] with [groups, in, out, *kernel], transposed."""
    kernel, steps, apart = three(weights.shape[-3:]), three(stride), three(dilation)
    more, borders = three(output_padding), three(padding)
    spans = [(size - 1) * s + 1 for size, s in zip(x.shape[-3:], steps, strict=True)]
    reach = [d * (k - 1) for k, d in zip(kernel, apart, strict=True)]
    full = [a + b + c for a, b, c in zip(spans, reach, more, strict=True)]
    result = np.zeros((*x.shape[:2], weights.shape[2], *full))
    for place in np.ndindex(kernel):
        starts = [k * d for k, d in zip(place, apart, strict=True)]
        slices: Any = tuple(
            slice(a, a + n, s) for a, n, s in zip(starts, spans, steps, strict=True)
        )
        result[(..., *slices)] += np.einsum("bgi...,gio->bgo...", x, weights[(..., *place)])
    inner: Any = tuple(slice(p, size - p) for p, size in zip(borders, full, strict=True))
    return result[(..., *inner)]
