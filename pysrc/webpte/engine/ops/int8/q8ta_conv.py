"""Convolutions of int8 in two spatial dims, with an optional relu, back to int8.

    x int8 [B, C, H, W] -> out int8 [B, O, OH, OW], with the sizes of the float convolutions
    weights int8, per output channel (tap, channel of the group):
        q8ta_conv2d, _pw, _transposed   [O, KH KW C/groups]; rows may end in padding
        q8ta_conv2d_dw                  [KH, KW, C], each channel for itself

ExecuTorch 1.1 calls two of them conv2d_q8ta_q8csw_q8to and conv2d_q8ta_q8csw_q8to_dw, without
activations. In 1.0 conv2d_q8ta_q8csw takes and makes floats: x is rounded to int8 first.

Scales and biases are floats per output channel, rounded up to a multiple of four by the exporter;
a transposed convolution in groups may share the scales of one group. Padding around the image is
x's zero, so it adds nothing. The sums of the weights are ignored.

Three kernels: a GEMM in tiles (`q8ta_conv`), a kernel that packs four channels into a word for it
(`q8ta_conv_pack`), and a direct kernel for depthwise and other narrow groups (`q8ta_conv_direct`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from webpte.engine.ops.conv.conv import (
    Convolution,
    Pair,
    add_taps,
    add_transposed,
    out_size,
    pack_params,
    spatial,
)
from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import WORKGROUP_SIZE, quad_count, quad_grid
from webpte.engine.ops.core.records import Binding, Dispatch, Scratch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.int8.int8 import (
    PerChannel,
    Scaling,
    check_int8,
    check_per_channel,
    check_terms,
    choose_tile,
    flip,
    floats_memory,
    read_scaling,
    types_of,
)
from webpte.engine.ops.quant.quantize import (
    int8_dispatch,
    inverse_of,
    np_requantize,
    requantize_dispatch,
)
from webpte.engine.shapes import Dims
from webpte.errors import GraphError, UnsupportedError

Array = np.ndarray


FLOAT = (
    "x: tensor, x_scale: number, x_zero: int, weight: tensor, sums: any, scales: tensor, "
    "bias: tensor?, kernel_size: ints, stride: ints, padding: ints, dilation: ints, groups: int "
    "-> tensor"
)


def signature(extra: str = "") -> str:
    return (
        "x: tensor, x_scale: number, x_zero: int, weight: tensor, sums: any, scales: tensor, "
        "out_scale: number, out_zero: int, bias: tensor?, kernel_size: ints, stride: ints, "
        f"padding: ints, {extra}dilation: ints, groups: int, activation: str = 'none' -> tensor"
    )


@dataclass(frozen=True)
class Kind:
    """A single op: the layout of its weights, whether it is transposed, and from and to floats."""

    name: str
    depthwise: bool = False
    transposed: bool = False
    floats: bool = False

    @property
    def signature(self) -> str:
        if self.floats:
            return FLOAT
        return signature("output_padding: ints, " if self.transposed else "")


KINDS = (
    Kind("et_vk.q8ta_conv2d.default"),
    Kind("et_vk.q8ta_conv2d_pw.default"),
    Kind("et_vk.q8ta_conv2d_dw.default", depthwise=True),
    Kind("et_vk.q8ta_conv2d_transposed.default", transposed=True),
    Kind("et_vk.conv2d_q8ta_q8csw_q8to.default"),
    Kind("et_vk.conv2d_q8ta_q8csw_q8to_dw.default", depthwise=True),
    Kind("et_vk.conv2d_q8ta_q8csw.default", floats=True),
)

# Narrower groups go to the direct kernel if they have few channels or short sums: most of a tile
# would be empty.
MIN_TILE_CHANNELS = 8
MIN_IN_CHANNELS = 4
SHORT_SUM = 64
MAX_WINDOW = 32  # inputs that the direct kernel keeps in registers


@dataclass(frozen=True)
class Int8Convolution:
    """A checked call. Weights are `row_bytes` apart per channel, `tap_bytes` per tap."""

    conv: Convolution
    scaling: Scaling
    weights: PerChannel
    row_bytes: int
    tap_bytes: int
    scales: int  # of weights: they repeat after so many channels
    depthwise: bool = False

    @property
    def tileable(self) -> bool:
        """Whether tiles can take the weights: padding must have weights of 0."""
        return self.scaling.weight_zero == 0

    @property
    def uniform(self) -> bytes:
        return self.scaling.params(self.row_bytes, self.tap_bytes, self.scales)


# Arguments, checked


def weight_layout(kind: Kind, args: Args, kernel: Pair, groups: int) -> tuple[int, int, int]:
    """Return the output channels, and the strides of a channel and a tap in the weights."""
    x, weight = args.tensor("x"), args.tensor("weight")
    channels, taps = x.dims[1] // groups, math.prod(kernel)
    if kind.depthwise:
        fits = channels == 1 and weight.dims[:2] == tuple(kernel) and weight.rank == 3
        if fits and weight.dims[2] >= groups:
            return groups, 1, weight.dims[2]
    elif weight.rank == 2 and weight.dims[0] % groups == 0 and weight.dims[1] >= taps * channels:
        return weight.dims[0], weight.dims[1], channels
    raise GraphError(
        f"{args.call}: weights {list(weight.dims)} for a kernel of {list(kernel)} "
        f"do not fit an input {list(x.dims)} in {groups} groups"
    )


def count_scales(kind: Kind, args: Args, channels: int, groups: int) -> int:
    """Return the number of channels after which the scales repeat."""
    scales = args.tensor("scales")
    shared = kind.transposed and scales.numel < channels
    count = channels // groups if shared else channels
    check_per_channel(args, "scales", scales, count)
    check_per_channel(args, "bias", args.optional_tensor("bias"), channels)
    return count


def read_groups(args: Args) -> int:
    """Return the number of groups, after checking the input."""
    x, groups = args.tensor("x"), args.integer("groups")
    if x.rank != 4:
        raise GraphError(f"{args.call}: an input of rank {x.rank}; it has 4 dims")
    if groups < 1 or x.dims[1] % groups or x.dims[1] == 0:
        raise GraphError(f"{args.call}: {x.dims[1]} channels in {groups} groups")
    return groups


def read_geometry(
    args: Args, channels: int, padding: Pair, transposed: bool, margins: Pair | None = None
) -> Convolution:
    """Return a convolution to `channels`; `margins` is the padding at both sides together."""
    x, groups = args.tensor("x"), args.integer("groups")
    conv = Convolution(
        batch=x.dims[0],
        groups=groups,
        in_channels=x.dims[1] // groups,
        out_channels=channels // groups,
        in_size=Pair(*x.dims[2:]),
        out_size=Pair(0, 0),
        kernel=spatial(args, "kernel_size", 2),
        stride=spatial(args, "stride", 2),
        padding=padding,
        dilation=spatial(args, "dilation", 2),
        transposed=transposed,
    )
    extra = spatial(args, "output_padding", 2) if transposed else Pair(0, 0)
    return replace(conv, out_size=out_size(args, conv, extra, margins))


def read_call(kind: Kind, args: Args) -> Int8Convolution:
    x, kernel = args.tensor("x"), spatial(args, "kernel_size", 2)
    check_int8(args, *(() if kind.floats else (x,)), args.tensor("weight"))
    if kind.floats and not (x.dtype.is_float and args.out.dtype.is_float):
        raise GraphError(f"{args.call}: takes and makes floats, not {x.dtype.name}")
    groups = read_groups(args)
    channels, row_bytes, tap_bytes = weight_layout(kind, args, kernel, groups)
    conv = read_geometry(args, channels, spatial(args, "padding", 2), kind.transposed)
    scales = count_scales(kind, args, channels, groups)
    weights = PerChannel(args.tensor("weight"), args.tensor("scales"), args.optional_tensor("bias"))
    scaling = read_scaling(args, not kind.floats)
    return Int8Convolution(
        conv, scaling, weights, row_bytes, tap_bytes, scales, depthwise=kind.depthwise
    )


def conv_shape(kind: Kind, args: Args) -> tuple[Dims]:
    if not kind.floats:
        check_int8(args, args.out)
    conv = read_call(kind, args).conv
    return ((conv.batch, conv.groups * conv.out_channels, *conv.out_size),)


# Lowering


def lower_conv(args: Args, call: Int8Convolution) -> list[Dispatch]:
    """Lower to the direct kernel or to tiles."""
    check_terms(args, call.conv.in_channels * math.prod(call.conv.kernel))
    if args.out.numel == 0:
        return []
    if args.tensor("x").dtype.is_float:
        return lower_floats(args, call)
    if args.target.software or runs_directly(call):
        return [lower_direct(args, call, args.tensor("x").id)]
    return lower_tiled(args, call)


def runs_directly(call: Int8Convolution) -> bool:
    """Return whether tiles would be mostly empty, or do not take the weights."""
    conv = call.conv
    little = conv.in_channels * math.prod(conv.kernel) <= SHORT_SUM
    narrow = conv.out_channels < MIN_TILE_CHANNELS
    few = narrow and (little or conv.in_channels < MIN_IN_CHANNELS)
    return call.depthwise or few or not call.tileable


def lower_floats(args: Args, call: Int8Convolution) -> list[Dispatch]:
    """Lower a convolution of floats: round x to int8, then convolve as others do, to floats."""
    x, out, scaling, conv = args.tensor("x"), args.out, call.scaling, call.conv
    if out.dtype.wgsl != "f32":
        raise UnsupportedError(f"{args.call}: an output of {out.dtype.name} is not supported")
    inverse = inverse_of(args, scaling.x_scale)
    memory = Scratch("int8 input", max(16, 1 << (x.numel - 1).bit_length()))
    rounded = int8_dispatch(x, memory, inverse, scaling.x_zero)
    if args.target.software or runs_directly(call):
        return [rounded, lower_direct(args, call, memory)]
    packed = [] if conv.is_pointwise else [lower_pack(memory, conv)]
    source = packed[0].bindings[1] if packed else memory
    return [rounded, *packed, lower_gemm(args, call, source, out.id, planes=not packed)]


def lower_direct(args: Args, call: Int8Convolution, source: Binding) -> Dispatch:
    conv, words = call.conv, quad_count(args.out.numel)
    window = 3 * conv.stride.w + (conv.kernel.w - 1) * conv.dilation.w + 1
    sizes = (window, conv.kernel.w, conv.stride.w, conv.dilation.w)
    if conv.transposed or conv.out_size.w % 4 or window > MAX_WINDOW or args.target.software:
        sizes = (0, 0, 0, 0)
    names = ("WINDOW", "WINDOW_TAPS", "WINDOW_STRIDE", "WINDOW_DILATION")
    return Dispatch(
        kernel="q8ta_conv_direct",
        bindings=(source, *call.weights.bindings, args.out.id, call.uniform),
        params=pack_params(conv, None, 1, 1),
        grid=quad_grid(words),
        types=(*call.weights.types(args), *types_of(**dict(zip(names, sizes, strict=True)))),
        overrides=(
            *call.weights.overrides,
            *flip("X_FLIP", args.tensor("x")),
            ("FLOATS", args.out.dtype.is_float),
            ("TRANSPOSED", conv.transposed),
        ),
    )


def lower_tiled(args: Args, call: Int8Convolution) -> list[Dispatch]:
    """Lower in up to three steps: pack channels, the GEMM, and requantize floats."""
    conv, out = call.conv, args.out
    # Outputs of a phase are not contiguous, and a plane that is not a multiple of four bytes shares
    # its last word with the next plane: both are written as floats first.
    whole = conv.phases == (1, 1) and math.prod(conv.out_size) % 4 == 0
    memory = floats_memory(out.numel)
    target: Binding = out.id if whole else memory
    x = args.tensor("x").id
    packed = [] if conv.is_pointwise else [lower_pack(x, conv, flip("X_FLIP", args.tensor("x")))]
    source = packed[0].bindings[1] if packed else x
    dispatches = [*packed, lower_gemm(args, call, source, target, planes=not packed)]
    if not whole:
        scaling = call.scaling
        assert scaling.inverse is not None
        bounds = (scaling.low, scaling.high)
        dispatches.append(requantize_dispatch(memory, out, scaling.inverse, scaling.zero, bounds))
    return dispatches


def lower_pack(
    x: Binding, conv: Convolution, flips: tuple[tuple[str, float], ...] = ()
) -> Dispatch:
    images, pixels = conv.batch * conv.groups, math.prod(conv.in_size)
    words = images * ceil_div(conv.in_channels, 4)
    memory = Scratch("int8 channels", max(16, 4 << (words * pixels - 1).bit_length()))
    return Dispatch(
        kernel="q8ta_conv_pack",
        bindings=(x, memory),
        params=pack("3I", images, conv.in_channels, pixels),
        grid=fold_grid(ceil_div(words * ceil_div(pixels, 4), WORKGROUP_SIZE)),
        overrides=(("ALIGNED", pixels % 4 == 0), *flips),
    )


def lower_gemm(
    args: Args, call: Int8Convolution, source: Binding, target: Binding, planes: bool
) -> Dispatch:
    """Return the GEMM of a source with channels in words, or with unpacked planes."""
    conv, copies = call.conv, call.conv.groups * math.prod(call.conv.phases)
    pixels = conv.batch * math.prod(conv.phase_size)
    tile = choose_tile(conv.out_channels, pixels, args.target, copies)
    rows, columns = tile.count(conv.out_channels, pixels)
    return Dispatch(
        kernel="q8ta_conv",
        bindings=(source, *call.weights.bindings, target, call.uniform),
        params=pack_params(conv, None, rows, columns),
        grid=fold_grid(rows * columns * copies),
        types=(*call.weights.types(args), *tile.types),
        overrides=(
            *call.weights.overrides,
            *(flip("X_FLIP", args.tensor("x")) if planes else ()),
            ("FLOATS", target != args.out.id or args.out.dtype.is_float),
            ("KERNEL_H", conv.kernel.h),
            ("KERNEL_W", conv.kernel.w),
            ("PLANES", planes),
            ("TRANSPOSED", conv.transposed),
            ("WEIGHT_ALIGNED", conv.in_channels % 4 == 0 and call.row_bytes % 4 == 0),
        ),
    )


# NumPy


def run_conv(kind: Kind, args: Args) -> Array:
    """Convolve with the float convolution's reference: float64 holds every sum exactly."""
    call = read_call(kind, args)
    conv, bias, weight = call.conv, args.optional_array("bias"), args.array("weight")
    channels, taps = conv.groups * conv.out_channels, math.prod(conv.kernel)
    if kind.depthwise:
        matrix = weight.reshape(taps, weight.shape[2]).T[:channels]
    else:
        matrix = weight[:, : taps * conv.in_channels]
    given, scaling = args.array("x"), call.scaling
    if kind.floats:
        given = np_requantize(given, inverse_of(args, scaling.x_scale), scaling.x_zero)
    sums = convolve(conv, given.astype(np.float64) - scaling.x_zero, matrix)
    scales = np.resize(args.array("scales")[: call.scales], channels)[:, None, None]
    offsets = None if bias is None else bias[:channels, None, None]
    found = scaling.result(sums.reshape(args.out.dims), scales, offsets)
    return found if kind.floats else found.astype(np.int8)


def convolve(conv: Convolution, x: Array, matrix: Array) -> Array:
    """Convolve x, less its zero, with filters (channel, (tap, channel of the group))."""
    shape = (conv.groups, conv.out_channels, *conv.kernel, conv.in_channels)
    filters = np.moveaxis(matrix.astype(np.float64).reshape(shape), -1, 2)
    groups = x.reshape(conv.batch, conv.groups, conv.in_channels, *conv.in_size)
    return (add_transposed if conv.transposed else add_taps)(conv, groups, filters)


for _kind in KINDS:
    register(
        _kind.name,
        _kind.signature,
        shape=lambda args, kind=_kind: conv_shape(kind, args),  # type: ignore[misc]
        lower=lambda args, kind=_kind: lower_conv(args, read_call(kind, args)),  # type: ignore[misc]
        reference=lambda args, kind=_kind: run_conv(kind, args),  # type: ignore[misc]
    )
