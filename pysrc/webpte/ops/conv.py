"""Convolutions: out[b, o, y, x] = bias[o] + sum of in[b, c, y s - p + i d, ..] * w[o, c, i, ..].

    input (B, C, L) or (B, C, H, W)
    weight (O, C / groups, *kernel); transposed (C, O / groups, *kernel)
    out (B, O, *sizes), with sizes as in `out_size`

`conv_with_clamp` bounds the result. One spatial dim is a height of 1. Four kernels: a product of
matrices in tiles (`conv`), the same for one tap (`conv_pointwise`), a direct one for depthwise and
other narrow groups (`conv_direct`), and the sum of parts (`conv_sum`), for outputs too few to fill
a GPU: several workgroups share one long sum then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from webpte.errors import GraphError, UnsupportedError
from webpte.ops.args import Args, TensorArg
from webpte.ops.elementwise import WORKGROUP_SIZE, quad_count, quad_grid
from webpte.ops.records import Binding, Dispatch, Scratch, ceil_div, fold_grid, pack
from webpte.ops.registry import register
from webpte.shapes import Dims

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


class Pair(NamedTuple):
    """One number per spatial dim."""

    h: int
    w: int


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
# A split that adds fewer steps than this is not worth the second dispatch.
MIN_SPLIT_STEPS = 6
MAX_SPLITS = 16
# From here on a tile has enough rows; narrower groups go to the direct kernel if they have little
# to add up, or so many outputs that they need no help with it.
MIN_TILE_CHANNELS = 8
SHORT_SUM = 64
MANY_INVOCATIONS = 8192
RUN = 4  # outputs per invocation and channel of the direct kernel
MAX_WINDOW = 32  # inputs that the direct kernel keeps in registers


@dataclass(frozen=True)
class Convolution:
    """A checked call; channels are those of one group."""

    batch: int
    groups: int
    in_channels: int
    out_channels: int
    in_size: Pair
    out_size: Pair
    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    transposed: bool

    @property
    def phases(self) -> Pair:
        """Into how many plain convolutions a transposed one falls: see wgsl/lib/conv.wgsl."""
        if not self.transposed:
            return Pair(1, 1)
        return Pair(*map(min, self.stride, self.out_size))

    @property
    def tap_step(self) -> Pair:
        return Pair(*(s // math.gcd(s, d) for s, d in zip(self.stride, self.dilation, strict=True)))

    @property
    def phase_size(self) -> Pair:
        """The outputs of the largest phase."""
        return Pair(*map(ceil_div, self.out_size, self.phases))

    @property
    def phase_taps(self) -> int:
        """The most taps that a phase can have."""
        steps = self.tap_step if self.transposed else Pair(1, 1)
        return math.prod(map(ceil_div, self.kernel, steps))

    @property
    def is_pointwise(self) -> bool:
        """Whether it is a product of two plain matrices whose rows are whole quads."""
        return (
            self.kernel == self.stride == (1, 1)
            and self.padding == (0, 0)
            and self.in_size == self.out_size
            and math.prod(self.in_size) % 4 == 0
        )


def spatial(args: Args, name: str, rank: int) -> Pair:
    """An argument with one entry per spatial dim, or one for all."""
    items = args.integers(name)
    if len(items) == 1:
        items = items * rank
    if len(items) != rank:
        raise GraphError(f"{args.call}: {name} {items} does not fit {rank} spatial dims")
    low = 0 if name.endswith("padding") else 1
    if min(items) < low:
        raise GraphError(f"{args.call}: {name} {items} is below {low}")
    if rank == 2:
        return Pair(*items)
    return Pair(low, items[0])  # a height of 1 has stride 1, dilation 1 and padding 0


def out_size(args: Args, conv: Convolution, extra: Pair) -> Pair:
    """The spatial dims of the output; `extra` is the output padding."""
    sizes = []
    for axis in range(2):
        size, stride, padding = conv.in_size[axis], conv.stride[axis], conv.padding[axis]
        reach = conv.dilation[axis] * (conv.kernel[axis] - 1)
        if not conv.transposed:
            room = size + 2 * padding - reach - 1
            sizes.append(room // stride + 1 if room >= 0 else 0)
        elif extra[axis] >= max(stride, conv.dilation[axis]):
            raise GraphError(
                f"{args.call}: output_padding {extra[axis]} must be below stride or dilation"
            )
        else:
            sizes.append((size - 1) * stride - 2 * padding + reach + extra[axis] + 1)
    if min(sizes) < 1:
        raise GraphError(
            f"{args.call}: a kernel of {list(conv.kernel)} does not fit an input of "
            f"{list(conv.in_size)} (padding {list(conv.padding)}, dilation {list(conv.dilation)})"
        )
    return Pair(*sizes)


def read_call(args: Args) -> Convolution:
    x, weight, bias = args.tensor("input"), args.tensor("weight"), args.optional_tensor("bias")
    if x.rank not in (3, 4):
        raise UnsupportedError(
            f"{args.call}: an input of rank {x.rank}; convolutions have 1 or 2 spatial dims here"
        )
    if not all(t is None or t.dtype.is_float for t in (x, weight, bias, args.out)):
        raise UnsupportedError(f"{args.call}: {x.dtype.name} {weight.dtype.name}; only floats are")
    if weight.rank != x.rank:
        raise GraphError(
            f"{args.call}: weight {list(weight.dims)} does not fit an input {list(x.dims)}"
        )
    rank, groups, transposed = x.rank - 2, args.integer("groups"), args.flag("transposed")
    out_channels = weight.dims[1] if transposed else weight.dims[0] // max(groups, 1)
    in_channels = weight.dims[0] // max(groups, 1) if transposed else weight.dims[1]
    if groups < 1 or weight.dims[0] % groups or in_channels * groups != x.dims[1]:
        raise GraphError(
            f"{args.call}: weight {list(weight.dims)} in {groups} groups does not fit "
            f"an input {list(x.dims)}"
        )
    if bias is not None and bias.dims != (out_channels * groups,):
        raise GraphError(
            f"{args.call}: bias {list(bias.dims)} for {out_channels * groups} channels"
        )
    flat = (1,) * (2 - rank)
    conv = Convolution(
        batch=x.dims[0],
        groups=groups,
        in_channels=in_channels,
        out_channels=out_channels,
        in_size=Pair(*flat, *x.dims[2:]),
        out_size=Pair(0, 0),
        kernel=Pair(*flat, *weight.dims[2:]),
        stride=spatial(args, "stride", rank),
        padding=spatial(args, "padding", rank),
        dilation=spatial(args, "dilation", rank),
        transposed=transposed,
    )
    extra = spatial(args, "output_padding", rank)
    return Convolution(**{**vars(conv), "out_size": out_size(args, conv, extra)})


def conv_shape(args: Args) -> tuple[Dims]:
    conv = read_call(args)
    sizes = conv.out_size[2 - (args.tensor("input").rank - 2) :]
    return ((conv.batch, conv.groups * conv.out_channels, *sizes),)


def read_bounds(args: Args, clamped: bool) -> Bounds:
    if not clamped:
        return -math.inf, math.inf
    low, high = args.optional_number("output_min"), args.optional_number("output_max")
    return (-math.inf if low is None else low, math.inf if high is None else high)


def lower_conv(args: Args, clamped: bool) -> list[Dispatch]:
    conv, bounds = read_call(args), read_bounds(args, clamped)
    if args.out.numel == 0:
        return []
    if runs_directly(conv):
        return [lower_direct(args, conv, bounds)]
    return lower_tiled(args, conv, bounds)


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
    return conv.out_channels < MIN_TILE_CHANNELS and (
        conv.in_channels * conv.phase_taps <= SHORT_SUM
        or direct_invocations(conv) >= MANY_INVOCATIONS
    )


def lower_direct(args: Args, conv: Convolution, bounds: Bounds) -> Dispatch:
    block, blocks, runs = direct_grid(conv)
    window = (RUN - 1) * conv.stride.w + (conv.kernel.w - 1) * conv.dilation.w + 1
    sizes = (window, conv.kernel.w, conv.stride.w, conv.dilation.w)
    if conv.transposed or window > MAX_WINDOW:
        sizes = (0, 0, 0, 0)
    names = ("WINDOW", "WINDOW_TAPS", "WINDOW_STRIDE", "WINDOW_DILATION")
    return Dispatch(
        kernel="conv_direct",
        bindings=(*inputs(args), args.out.id),
        params=pack_params(conv, bounds, blocks, runs),
        grid=fold_grid(ceil_div(direct_invocations(conv), WORKGROUP_SIZE)),
        types=(
            ("BLOCK", str(block)),
            *((name, str(size)) for name, size in zip(names, sizes, strict=True)),
        ),
        overrides=overrides(args, conv),
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


def lower_tiled(args: Args, conv: Convolution, bounds: Bounds) -> list[Dispatch]:
    out, copies = args.out, conv.groups * math.prod(conv.phases)
    pixels = conv.batch * math.prod(conv.phase_size)
    tile = choose_tile(conv, pixels, copies)
    rows, columns = ceil_div(conv.out_channels, tile.rows), ceil_div(pixels, tile.columns)
    terms = conv.in_channels * conv.phase_taps
    splits = choose_splits(tile, terms, rows * columns * copies)
    split_terms = ceil_div(terms, splits * tile.step) * tile.step
    quads = quad_count(out.numel)
    # Sizes that are powers of two let calls of similar size share their memory.
    parts = Scratch("conv_parts", 1 << (splits * quads * 16 - 1).bit_length())
    split_override = (("SPLIT", splits > 1),)
    taps = (("KERNEL_H", conv.kernel.h), ("KERNEL_W", conv.kernel.w))
    product = Dispatch(
        kernel="conv_pointwise" if conv.is_pointwise else "conv",
        bindings=(*inputs(args), out.id if splits == 1 else parts),
        params=pack_params(conv, bounds, rows, columns, splits, split_terms),
        grid=fold_grid(rows * columns * splits * copies),
        types=(
            ("STEP", str(tile.step)),
            ("TILE_COLUMNS", str(tile.columns)),
            ("TILE_ROWS", str(tile.rows)),
        ),
        overrides=overrides(args, conv) + split_override + (() if conv.is_pointwise else taps),
    )
    return [product] if splits == 1 else [product, lower_sum(args, conv, bounds, parts, splits)]


def lower_sum(
    args: Args, conv: Convolution, bounds: Bounds, parts: Scratch, splits: int
) -> Dispatch:
    quads = quad_count(args.out.numel)
    channels, size = conv.groups * conv.out_channels, math.prod(conv.out_size)
    bias = inputs(args)[2]
    return Dispatch(
        kernel="conv_sum",
        bindings=(parts, bias, args.out.id),
        params=pack("4I2f", quads, splits, channels, size, *bounds),
        grid=quad_grid(quads),
        overrides=(("HAS_BIAS", bias is not None),),
    )


def inputs(args: Args) -> tuple[Binding, Binding, Binding]:
    bias: TensorArg | None = args.optional_tensor("bias")
    return args.tensor("input").id, args.tensor("weight").id, None if bias is None else bias.id


def overrides(args: Args, conv: Convolution) -> tuple[tuple[str, float], ...]:
    return (
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
    result = np.zeros((conv.batch, conv.groups, conv.out_channels, *conv.out_size))
    padded = np.pad(x, [(0, 0)] * 3 + [(p, p) for p in conv.padding])
    for tap in np.ndindex(*conv.kernel):
        under = tuple(
            slice(at * dilation, at * dilation + (size - 1) * stride + 1, stride)
            for at, size, stride, dilation in zip(
                tap, conv.out_size, conv.stride, conv.dilation, strict=True
            )
        )
        result += times(weight[:, :, :, tap[0], tap[1]], padded[..., under[0], under[1]])
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
