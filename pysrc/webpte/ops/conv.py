"""Convolutions: out[b, o, y, x] = bias[o] + sum of in[b, c, y s - p + i d, ..] * w[o, c, i, ..].

    input (B, C, L), (B, C, H, W) or (B, C, D, H, W); the last in conv_volume.py
    weight (O, C / groups, *kernel); transposed (C, O / groups, *kernel)
    out (B, O, *sizes), with sizes as in `conv_geometry.out_size`

`conv_with_clamp` bounds the result. Four kernels: a product of matrices in tiles (`conv`), the same
for one tap (`conv_pointwise`), a direct one for depthwise and other narrow groups (`conv_direct`),
and the sum of parts (`conv_sum`), for outputs too few to fill a GPU: several workgroups share one
long sum then. A software adapter gets a fifth one for everything (`conv_simple`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from webpte.ops.args import Args, TensorArg
from webpte.ops.conv_geometry import Convolution, Pair, out_size, read_call, spatial
from webpte.ops.conv_volume import is_volume, lower_volume, run_volume, volume_shape
from webpte.ops.elementwise import WORKGROUP_SIZE, float_type, quad_count, quad_grid
from webpte.ops.records import Binding, Dispatch, Scratch, ceil_div, fold_grid, pack
from webpte.ops.registry import register
from webpte.shapes import Dims

# What other kinds of convolutions use, too.
__all__ = [
    "Convolution",
    "Pair",
    "add_taps",
    "add_transposed",
    "out_size",
    "pack_params",
    "spatial",
]

Array = np.ndarray
Bounds = tuple[float, float]

CONVOLUTION = (
    "input: tensor, weight: tensor, bias: tensor?, stride: ints, padding: ints, dilation: ints, "
    "transposed: bool, output_padding: ints, groups: int"
)
OPS = {
    "aten.convolution.default": f"{CONVOLUTION} -> tensor",
    "et_vk.conv_with_clamp.default": (
        f"{CONVOLUTION}, output_min: number? = None, output_max: number? = None -> tensor"
    ),
}


@dataclass(frozen=True)
class Tile:
    """What a workgroup of 256 makes, 4 x 4 elements per invocation; `step` is how much of the sum
    is in workgroup memory at once. Invocations beyond one per 4 x 4 share the sum."""

    rows: int  # channels
    columns: int  # pixels
    step: int

    @property
    def slices(self) -> int:
        return 256 * 16 // (self.rows * self.columns)


LARGE, SMALL, FLAT = Tile(64, 64, 16), Tile(32, 32, 16), Tile(16, 64, 8)

# Enough workgroups to keep a large GPU busy (some 130 cores, two each).
FULL = 256
# A part of a sum with fewer steps than this is not worth the second dispatch.
MIN_SPLIT_STEPS = 2
MAX_SPLITS = 16
# Narrower groups than the first leave a tile mostly empty: they go to the direct kernel, unless
# they have more than the second to add up, where even such a tile is faster.
MIN_TILE_CHANNELS = 8
SHORT_SUM = 64
RUN = 4  # outputs per invocation and channel of the direct kernel
COLUMN_ELEMENTS = 1 << 17  # of the inputs of NumPy's products: they stay in the caches
MAX_WINDOW = 32  # inputs that the direct kernel keeps in registers


def conv_shape(args: Args) -> tuple[Dims]:
    if is_volume(args):
        return (volume_shape(args),)
    conv = read_call(args)
    sizes = conv.out_size[2 - (args.tensor("input").rank - 2) :]
    return ((conv.batch, conv.groups * conv.out_channels, *sizes),)


def read_bounds(args: Args, clamped: bool) -> Bounds:
    if not clamped:
        return -math.inf, math.inf
    low, high = args.optional_number("output_min"), args.optional_number("output_max")
    return (-math.inf if low is None else low, math.inf if high is None else high)


@dataclass(frozen=True)
class Ending:
    """What becomes of the sums: their bounds, what is added before, and where they go."""

    bounds: Bounds
    out: TensorArg
    added: TensorArg | None = None

    @property
    def added_id(self) -> int | None:
        return None if self.added is None else self.added.id


def lower_conv(args: Args, clamped: bool) -> list[Dispatch]:
    if is_volume(args):
        return lower_volume(args, read_bounds(args, clamped))
    return lower_image(args, Ending(read_bounds(args, clamped), args.out))


def lower_image(args: Args, ending: Ending) -> list[Dispatch]:
    """One or two dims."""
    conv = read_call(args)
    if args.out.numel == 0:
        return []
    if args.target.software:
        return [lower_simple(args, conv, ending)]
    if runs_directly(conv):
        return [lower_direct(args, conv, ending)]
    return lower_tiled(args, conv, ending)


# The direct kernel


def direct_grid(conv: Convolution) -> tuple[int, int, int]:
    """Channels per invocation, blocks of channels and runs of outputs per row."""
    block = 1 if conv.out_channels == 1 else 4
    return block, ceil_div(conv.out_channels, block), ceil_div(conv.phase_size.w, RUN)


def direct_invocations(conv: Convolution) -> int:
    _, blocks, runs = direct_grid(conv)
    images = conv.batch * conv.groups * math.prod(conv.phases)
    return images * blocks * conv.phase_size.h * runs


def runs_directly(conv: Convolution) -> bool:
    terms = conv.in_channels * conv.phase_taps
    return conv.out_channels < MIN_TILE_CHANNELS and terms <= SHORT_SUM


def lower_direct(args: Args, conv: Convolution, ending: Ending) -> Dispatch:
    block, blocks, runs = direct_grid(conv)
    window = (RUN - 1) * conv.stride.w + (conv.kernel.w - 1) * conv.dilation.w + 1
    sizes = (window, conv.kernel.w, conv.stride.w, conv.dilation.w)
    if conv.transposed or window > MAX_WINDOW:
        sizes = (0, 0, 0, 0)
    names = ("WINDOW", "WINDOW_TAPS", "WINDOW_STRIDE", "WINDOW_DILATION")
    return Dispatch(
        kernel="conv_direct",
        bindings=(*inputs(args), ending.added_id, ending.out.id),
        params=pack_params(conv, ending.bounds, blocks, runs),
        grid=fold_grid(ceil_div(direct_invocations(conv), WORKGROUP_SIZE)),
        types=(
            ("BLOCK", str(block)),
            ("FLOAT", stored_type(args, ending)),
            *((name, str(size)) for name, size in zip(names, sizes, strict=True)),
        ),
        overrides=overrides(args, conv, ending),
    )


def lower_simple(args: Args, conv: Convolution, ending: Ending) -> Dispatch:
    """For a software adapter."""
    block, blocks, runs = direct_grid(conv)
    return Dispatch(
        kernel="conv_simple",
        bindings=(*inputs(args), ending.added_id, ending.out.id),
        params=pack_params(conv, ending.bounds, blocks, runs),
        grid=fold_grid(ceil_div(direct_invocations(conv), WORKGROUP_SIZE)),
        types=(("BLOCK", str(block)), ("FLOAT", stored_type(args, ending))),
        overrides=overrides(args, conv, ending),
    )


# The tiled kernels


def choose_tile(conv: Convolution, pixels: int, copies: int) -> Tile:
    """The largest tile of which there are enough."""
    if conv.out_channels <= FLAT.rows:
        return FLAT
    rows, columns = ceil_div(conv.out_channels, LARGE.rows), ceil_div(pixels, LARGE.columns)
    return LARGE if rows * columns * copies >= FULL else SMALL


def choose_splits(tile: Tile, terms: int, workgroups: int) -> int:
    """Among how many workgroups a sum of `terms` is divided, so that the GPU is full."""
    steps = terms // (tile.step * tile.slices)
    return max(1, min(FULL // workgroups, steps // MIN_SPLIT_STEPS, MAX_SPLITS))


def lower_tiled(args: Args, conv: Convolution, ending: Ending) -> list[Dispatch]:
    out, copies = ending.out, conv.groups * math.prod(conv.phases)
    pixels = conv.batch * math.prod(conv.phase_size)
    tile = choose_tile(conv, pixels, copies)
    rows, columns = ceil_div(conv.out_channels, tile.rows), ceil_div(pixels, tile.columns)
    terms = conv.in_channels * conv.phase_taps
    splits = choose_splits(tile, terms, rows * columns * copies)
    split_terms = ceil_div(terms, splits * tile.step) * tile.step
    quads = quad_count(out.numel)
    # Sizes that are powers of two let calls of similar size share their memory.
    parts = Scratch("conv_parts", 1 << (splits * quads * 16 - 1).bit_length())
    taps = (("KERNEL_H", conv.kernel.h), ("KERNEL_W", conv.kernel.w))
    own = (("SPLIT", splits > 1), *(() if conv.is_pointwise else taps))
    product = Dispatch(
        kernel="conv_pointwise" if conv.is_pointwise else "conv",
        bindings=(*inputs(args), *((ending.added_id, out.id) if splits == 1 else (None, parts))),
        params=pack_params(conv, ending.bounds, rows, columns, splits, split_terms),
        grid=fold_grid(rows * columns * splits * copies),
        types=(
            ("FLOAT", stored_type(args, ending)),
            ("OUT", stored_type(args, ending) if splits == 1 else "f32"),
            ("STEP", str(tile.step)),
            ("TILE_COLUMNS", str(tile.columns)),
            ("TILE_ROWS", str(tile.rows)),
        ),
        overrides=(*overrides(args, conv, ending), *own),
    )
    return [product] if splits == 1 else [product, lower_sum(args, conv, ending, parts, splits)]


def lower_sum(
    args: Args, conv: Convolution, ending: Ending, parts: Scratch, splits: int
) -> Dispatch:
    quads = quad_count(ending.out.numel)
    channels, size = conv.groups * conv.out_channels, math.prod(conv.out_size)
    bias = inputs(args)[2]
    return Dispatch(
        kernel="conv_sum",
        bindings=(parts, bias, ending.added_id, ending.out.id),
        params=pack("4I2f", quads, splits, channels, size, *ending.bounds),
        grid=quad_grid(quads),
        types=(("FLOAT", stored_type(args, ending)),),
        overrides=(("HAS_ADDED", ending.added is not None), ("HAS_BIAS", bias is not None)),
    )


def inputs(args: Args) -> tuple[Binding, Binding, Binding]:
    bias = args.optional_tensor("bias")
    return args.tensor("input").id, args.tensor("weight").id, None if bias is None else bias.id


def stored_type(args: Args, ending: Ending) -> str:
    given = args.tensor("input"), args.tensor("weight"), args.optional_tensor("bias")
    return float_type(args, *given, ending.added, ending.out)


def overrides(args: Args, conv: Convolution, ending: Ending) -> tuple[tuple[str, float], ...]:
    return (
        ("HAS_ADDED", ending.added is not None),
        ("HAS_BIAS", args.optional_tensor("bias") is not None),
        ("TRANSPOSED", conv.transposed),
    )


def pack_params(
    conv: Convolution,
    bounds: Bounds,
    rows: int,
    columns: int,
    splits: int = 1,
    split_terms: int = 0,
) -> bytes:
    """Params of wgsl/lib/conv.wgsl."""
    return pack(
        "10I6i2I2i2f4I",
        *(conv.batch, conv.groups, conv.in_channels, conv.out_channels),
        *(*conv.in_size, *conv.out_size, *conv.kernel),
        *(*conv.stride, *conv.padding, *conv.dilation, *conv.phases, *conv.tap_step),
        *bounds,
        *(rows, columns, splits, split_terms),
    )


# NumPy


def run_conv(args: Args, clamped: bool) -> Array:
    """Tap by tap: each is a product of matrices over a strided view of the input."""
    low, high = read_bounds(args, clamped)
    if is_volume(args):
        return np.minimum(np.maximum(run_volume(args), low), high)
    conv, x, bias = read_call(args), args.array("input"), args.optional_array("bias")
    groups = (conv.batch, conv.groups, conv.in_channels, *conv.in_size)
    wide = x.astype(np.float64).reshape(groups)
    weight = args.array("weight").astype(np.float64)
    if conv.transposed:
        taps = weight.reshape(conv.groups, conv.in_channels, conv.out_channels, *conv.kernel)
        result = add_transposed(conv, wide, taps.swapaxes(1, 2))
    else:
        taps = weight.reshape(conv.groups, conv.out_channels, conv.in_channels, *conv.kernel)
        result = add_taps(conv, wide, taps)
    if bias is not None:
        result += bias.astype(np.float64).reshape(conv.groups, conv.out_channels, 1, 1)
    return np.minimum(np.maximum(result.reshape(args.out.dims), low), high)


def times(weight: Array, x: Array) -> Array:
    """(groups, O, C) by (B, groups, C, H, W)."""
    flat = weight @ x.reshape(*x.shape[:3], math.prod(x.shape[3:]))
    return flat.reshape(*flat.shape[:3], *x.shape[3:])


def add_taps(conv: Convolution, x: Array, weight: Array) -> Array:
    """What lies under the kernel becomes a column, some rows of an image at a time: then all taps
    are one product of matrices."""
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
    """Every input adds to the outputs under the taps; the padding cuts off what lies outside."""
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


for _name, _signature in OPS.items():
    _clamped = "output_min" in _signature
    register(
        _name,
        _signature,
        shape=conv_shape,
        lower=lambda args, clamped=_clamped: lower_conv(args, clamped),  # type: ignore[misc]
        reference=lambda args, clamped=_clamped: run_conv(args, clamped),  # type: ignore[misc]
    )
