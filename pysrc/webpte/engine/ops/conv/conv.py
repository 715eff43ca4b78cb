"""Convolutions: out[b, o, y, x] = bias[o] + sum of in[b, c, y s - p + i d, ..] * w[o, c, i, ..].

    input (B, C, L), (B, C, H, W) or (B, C, D, H, W); the last in conv3d.py
    weight (O, C / groups, *kernel); transposed (C, O / groups, *kernel)
    out (B, O, *sizes), with sizes as in `conv_geometry.out_size`

`conv_with_clamp` bounds the result. Kernels, in the order in which they are considered:

    conv_direct       depthwise and other narrow groups
    gemm_small        one tap: a small GEMM, see gemm_small.py
    conv_window       3 x 3 taps, if there are enough outputs for a GPU, see conv_window.py
    conv              a GEMM in tiles; conv_pointwise is the same for one tap
    conv_split_k_sum  after these two, if there are too few outputs to fill a GPU and several
                      workgroups share one long sum
    conv_simple       everything, for a software adapter
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from webpte.engine.ops.conv.conv3d import is_volume, lower_volume, run_volume, volume_shape
from webpte.engine.ops.conv.conv_block import UNBOUNDED, Bounds, ConvBlock, clamping
from webpte.engine.ops.conv.conv_geometry import Convolution, Pair, out_size, read_call, spatial
from webpte.engine.ops.conv.conv_numpy import add_taps, add_transposed
from webpte.engine.ops.conv.conv_tiles import ConvTile, ConvTiles, choose_conv_config
from webpte.engine.ops.conv.conv_window import ConvWindow
from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import WORKGROUP_SIZE, quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, Scratch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.gemm.gemm_small import SmallGemm, is_small
from webpte.engine.ops.gemm.lib.epilogue import Epilogue
from webpte.engine.ops.gemm.lib.gemm import Gemm
from webpte.engine.shapes import Dims

# Names for conv3d.py and the int8 convolutions.
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

CONVOLUTION = (
    "input: tensor, weight: tensor, bias: tensor?, stride: ints, padding: ints, dilation: ints, "
    "transposed: bool, output_padding: ints, groups: int"
)
# A convolution of numbers that were rounded to int8 in this run, with whole numbers as weights; its
# name says in a program's report that it is computed in floats.
IN_FLOATS = "webpte.dq8_conv_in_floats.default"
OPS = {
    "aten.convolution.default": f"{CONVOLUTION} -> tensor",
    IN_FLOATS: f"{CONVOLUTION} -> tensor",
    "et_vk.conv_with_clamp.default": (
        f"{CONVOLUTION}, output_min: number? = None, output_max: number? = None -> tensor"
    ),
}


# Groups with fewer channels leave a tile mostly empty: they go to the direct kernel, unless their
# sums are longer than SHORT_SUM; then even a mostly empty tile is faster.
MIN_TILE_CHANNELS = 8
SHORT_SUM = 64
RUN = 4  # outputs per invocation and channel of the direct kernel
MAX_WINDOW = 32  # inputs that the direct kernel keeps in registers


def conv_shape(args: Args) -> tuple[Dims]:
    """Return the shape of the output."""
    if is_volume(args):
        return (volume_shape(args),)
    conv = read_call(args)
    sizes = conv.out_size[2 - (args.tensor("input").rank - 2) :]
    return ((conv.batch, conv.groups * conv.out_channels, *sizes),)


def read_bounds(args: Args, clamped: bool) -> Bounds:
    """Read the bounds of a clamped convolution."""
    if not clamped:
        return UNBOUNDED
    low, high = args.optional_number("output_min"), args.optional_number("output_max")
    return (-math.inf if low is None else low, math.inf if high is None else high)


def lower_conv(args: Args, clamped: bool) -> list[Dispatch]:
    """Lower a convolution of one to three dims."""
    bounds = read_bounds(args, clamped)
    if is_volume(args):
        return lower_volume(args, bounds)
    return lower_image(ConvBlock(args, args.out, clamping(bounds)))


def lower_image(block: ConvBlock) -> list[Dispatch]:
    """Lower a convolution of one or two dims."""
    args, conv = block.args, block.geometry()
    if args.out.numel == 0:
        return []
    if args.target.software:
        return [lower_simple(block, conv)]
    if runs_directly(conv):
        return [lower_direct(block, conv)]
    gemm = gemm_of(block, conv)
    if conv.has_one_tap and is_gemm(conv, gemm):
        return [lower_gemm(block, gemm)]
    match choose_conv_config(args, conv, gemm):
        case ConvWindow() as window:
            return [lower_window(block, conv, window)]
        case ConvTiles(tile, splits):
            return lower_tiled(block, conv, tile, splits)


def lower_window(block: ConvBlock, conv: Convolution, window: ConvWindow) -> Dispatch:
    """Lower to conv_window.wgsl."""
    down, across = window.blocks(conv)
    return Dispatch(
        kernel="conv_window",
        bindings=(*block.inputs, block.epilogue.residual_id, block.out.id),
        params=pack_params(conv, block.epilogue, window.rows(conv), across, down),
        grid=fold_grid(window.workgroups(conv)),
        types=(
            *block.epilogue.types,
            ("FLOAT", block.stored),
            ("LINES", str(window.lines)),
            ("ROW_QUADS", str(window.row_quads)),
            ("WIDTH", str(window.width)),
        ),
        overrides=block.overrides,
    )


# One tap


def gemm_of(block: ConvBlock, conv: Convolution) -> Gemm:
    """Return (channel, k) by (k, pixel), k being (in channel, tap)."""
    return Gemm(
        m=conv.out_channels,
        n=math.prod(conv.out_size),
        k=conv.in_channels * math.prod(conv.kernel),
        batches=conv.batch,
        addend=block.bias,
        addend_strides=(1, 0),
        beta=float(block.bias is not None),
        stored=block.stored,
    )


def is_gemm(conv: Convolution, gemm: Gemm) -> bool:
    """Return whether a convolution of one tap is a GEMM of a size for one dispatch."""
    return conv.groups == 1 and not conv.transposed and is_small(gemm)


def lower_gemm(block: ConvBlock, gemm: Gemm) -> Dispatch:
    """Lower a convolution of one tap to a small GEMM with the same epilogue."""
    (x, weight, _), step = block.inputs, gemm.k * gemm.n
    whole = SmallGemm(gemm, weight, x, 0, step, False, block.epilogue, block.args.target)
    return whole.dispatch(block.out.id)


# The direct kernel


def direct_grid(conv: Convolution) -> tuple[int, int, int]:
    """Return the channels per invocation, blocks of channels and runs of outputs per row."""
    block = 1 if conv.out_channels == 1 else 4
    return block, ceil_div(conv.out_channels, block), ceil_div(conv.phase_size.w, RUN)


def direct_invocations(conv: Convolution) -> int:
    """Return the number of invocations of the direct kernel."""
    _, blocks, runs = direct_grid(conv)
    images = conv.batch * conv.groups * math.prod(conv.phases)
    return images * blocks * conv.phase_size.h * runs


def runs_directly(conv: Convolution) -> bool:
    """Return whether the direct kernel is faster than tiles."""
    terms = conv.in_channels * conv.phase_taps
    return conv.out_channels < MIN_TILE_CHANNELS and terms <= SHORT_SUM


def lower_direct(block: ConvBlock, conv: Convolution) -> Dispatch:
    """Lower to conv_direct.wgsl."""
    channels, blocks, runs = direct_grid(conv)
    window = (RUN - 1) * conv.stride.w + (conv.kernel.w - 1) * conv.dilation.w + 1
    sizes = (window, conv.kernel.w, conv.stride.w, conv.dilation.w)
    if conv.transposed or window > MAX_WINDOW:
        sizes = (0, 0, 0, 0)
    names = ("WINDOW", "WINDOW_TAPS", "WINDOW_STRIDE", "WINDOW_DILATION")
    return Dispatch(
        kernel="conv_direct",
        bindings=(*block.inputs, block.epilogue.residual_id, block.out.id),
        params=pack_params(conv, block.epilogue, blocks, runs),
        grid=fold_grid(ceil_div(direct_invocations(conv), WORKGROUP_SIZE)),
        types=(
            *block.epilogue.types,
            ("BLOCK", str(channels)),
            ("FLOAT", block.stored),
            *((name, str(size)) for name, size in zip(names, sizes, strict=True)),
        ),
        overrides=(*block.overrides, ("TRANSPOSED", conv.transposed)),
    )


def lower_simple(block: ConvBlock, conv: Convolution) -> Dispatch:
    """Lower to conv_simple.wgsl, for a software adapter."""
    channels, blocks, runs = direct_grid(conv)
    return Dispatch(
        kernel="conv_simple",
        bindings=(*block.inputs, block.epilogue.residual_id, block.out.id),
        params=pack_params(conv, block.epilogue, blocks, runs),
        grid=fold_grid(ceil_div(direct_invocations(conv), WORKGROUP_SIZE)),
        types=(("BLOCK", str(channels)), ("FLOAT", block.stored)),
        overrides=(
            ("HAS_BIAS", block.bias is not None),
            ("HAS_RESIDUAL", block.epilogue.residual is not None),
            ("TRANSPOSED", conv.transposed),
        ),
    )


# The tiled kernels


def lower_tiled(block: ConvBlock, conv: Convolution, tile: ConvTile, splits: int) -> list[Dispatch]:
    """Lower to a GEMM in tiles; with several `splits` of k, a second dispatch adds up the parts."""
    out, copies = block.out, conv.groups * math.prod(conv.phases)
    pixels = conv.batch * math.prod(conv.phase_size)
    rows, columns = ceil_div(conv.out_channels, tile.rows), ceil_div(pixels, tile.columns)
    terms = conv.in_channels * conv.phase_taps
    quads, target = quad_count(out.numel), block.args.target
    splits = min(splits, target.most_splits(quads * 16))
    split_terms = ceil_div(terms, splits * tile.step) * tile.step
    parts = Scratch("conv_parts", target.scratch_bytes(splits * quads * 16))
    taps = (("KERNEL_H", conv.kernel.h), ("KERNEL_W", conv.kernel.w))
    whole = terms % 4 == 0 and not conv.transposed
    own = (("SPLIT", splits > 1), *(() if conv.is_pointwise else taps), ("WHOLE_WEIGHTS", whole))
    first = block if splits == 1 else replace(block, epilogue=Epilogue())
    stored = block.stored
    tiled = Dispatch(
        kernel="conv_pointwise" if conv.is_pointwise else "conv",
        bindings=(
            *(*block.inputs, first.epilogue.residual_id),
            out.id if splits == 1 else parts,
        ),
        params=pack_params(conv, first.epilogue, rows, columns, splits, split_terms),
        grid=fold_grid(rows * columns * splits * copies),
        types=(
            *first.epilogue.types,
            ("FLOAT", stored),
            ("OUT", stored if splits == 1 else "f32"),
            ("STEP", str(tile.step)),
            ("TILE_COLUMNS", str(tile.columns)),
            ("TILE_ROWS", str(tile.rows)),
            ("WEIGHT", f"vec4<{stored}>" if whole else stored),
            ("WEIGHT_AT", "weight[at / 4u][at % 4u]" if whole else "weight[at]"),
            ("WEIGHT_RUN", "vec4<f32>(weight[at / 4u])" if whole else "vec4<f32>()"),
        ),
        overrides=(*first.overrides, ("TRANSPOSED", conv.transposed), *own),
    )
    return [tiled] if splits == 1 else [tiled, lower_sum(block, conv, parts, splits)]


def lower_sum(block: ConvBlock, conv: Convolution, parts: Scratch, splits: int) -> Dispatch:
    """Lower the sum of the splits, with the bias and the epilogue."""
    epilogue, quads = block.epilogue, quad_count(block.out.numel)
    channels, size = conv.groups * conv.out_channels, math.prod(conv.out_size)
    numbers = (*epilogue.first_scalars(2), epilogue.residual_numel)
    return Dispatch(
        kernel="conv_split_k_sum",
        bindings=(parts, block.inputs[2], epilogue.residual_id, block.out.id),
        params=pack("4I2fI", quads, splits, channels, size, *numbers),
        grid=quad_grid(quads),
        types=(*epilogue.types, ("FLOAT", block.stored)),
        overrides=block.overrides,
    )


def pack_params(
    conv: Convolution,
    epilogue: Epilogue | None,
    rows: int,
    columns: int,
    splits: int = 1,
    split_terms: int = 0,
) -> bytes:
    """Pack the params of wgsl/lib/conv/conv.wgsl."""
    return pack(
        "10I6i2I2i2f5I",
        *(conv.batch, conv.groups, conv.in_channels, conv.out_channels),
        *(*conv.in_size, *conv.out_size, *conv.kernel),
        *(*conv.stride, *conv.padding, *conv.dilation, *conv.phases, *conv.tap_step),
        *(epilogue.first_scalars(2) if epilogue else (0, 0)),
        *(rows, columns, splits, split_terms, epilogue.residual_numel if epilogue else 0),
    )


# NumPy


def run_conv(args: Args, clamped: bool) -> Array:
    """Convolve tap by tap; each tap is a matrix multiplication over a strided view of the input."""
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


for _name, _signature in OPS.items():
    _clamped = "output_min" in _signature
    register(
        _name,
        _signature,
        shape=conv_shape,
        lower=lambda args, clamped=_clamped: lower_conv(args, clamped),  # type: ignore[misc]
        reference=lambda args, clamped=_clamped: run_conv(args, clamped),  # type: ignore[misc]
    )
