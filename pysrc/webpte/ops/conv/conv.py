"""Convolutions: out[b, o, y, x] = bias[o] + sum of in[b, c, y s - p + i d, ..] * w[o, c, i, ..].

    input (B, C, L), (B, C, H, W) or (B, C, D, H, W); the last in conv_volume.py
    weight (O, C / groups, *kernel); transposed (C, O / groups, *kernel)
    out (B, O, *sizes), with sizes as in `conv_geometry.out_size`

`conv_with_clamp` bounds the result. Kernels, in the order in which they are asked:

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

import numpy as np

from webpte.ops.conv.conv3d import is_volume, lower_volume, run_volume, volume_shape
from webpte.ops.conv.conv_epilogue import Bounds, ConvEpilogue, read_padded
from webpte.ops.conv.conv_geometry import Convolution, Pair, out_size, read_call, spatial
from webpte.ops.conv.conv_numpy import add_taps, add_transposed
from webpte.ops.conv.conv_tiles import ConvTile, ConvTiles, choose_cut
from webpte.ops.conv.conv_window import ConvWindow
from webpte.ops.core.args import Args
from webpte.ops.core.quads import WORKGROUP_SIZE, float_type, quad_count, quad_grid
from webpte.ops.core.records import Binding, Dispatch, Scratch, ceil_div, fold_grid, pack
from webpte.ops.core.registry import register
from webpte.ops.gemm import gemm, gemm_small
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


# Narrower groups than the first leave a tile mostly empty: they go to the direct kernel, unless
# they have more than the second to add up, where even such a tile is faster.
MIN_TILE_CHANNELS = 8
SHORT_SUM = 64
RUN = 4  # outputs per invocation and channel of the direct kernel
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


def lower_conv(args: Args, clamped: bool) -> list[Dispatch]:
    if is_volume(args):
        return lower_volume(args, read_bounds(args, clamped))
    return lower_image(args, ConvEpilogue(args.out, read_bounds(args, clamped)))


def lower_image(args: Args, ending: ConvEpilogue) -> list[Dispatch]:
    """One or two dims."""
    conv = read_padded(args, ending)
    if args.out.numel == 0:
        return []
    if args.target.software:
        return [lower_simple(args, conv, ending)]
    if runs_directly(conv):
        return [lower_direct(args, conv, ending)]
    product = product_of(args, conv, ending)
    if conv.has_one_tap and is_product(conv, product):
        return [multiplied(args, ending, product)]
    match choose_cut(args, conv, product):
        case ConvWindow() as window:
            return [lower_window(args, conv, ending, window)]
        case ConvTiles(tile, splits):
            return lower_tiled(args, conv, ending, tile, splits)


def lower_window(
    args: Args, conv: Convolution, ending: ConvEpilogue, window: ConvWindow
) -> Dispatch:
    down, across = window.blocks(conv)
    return Dispatch(
        kernel="conv_window",
        bindings=(*inputs(args, ending), ending.beside_id, ending.out.id),
        params=pack_params(conv, ending, window.rows(conv), across, down),
        grid=fold_grid(window.workgroups(conv)),
        types=(
            *ending.types,
            ("FLOAT", stored_type(args, ending)),
            ("LINES", str(window.lines)),
            ("ROW_QUADS", str(window.row_quads)),
            ("WIDTH", str(window.width)),
        ),
        overrides=end_overrides(args, ending),
    )


# One tap


def product_of(args: Args, conv: Convolution, ending: ConvEpilogue) -> gemm.Gemm:
    """(channel, k) by (k, pixel), k being (in channel, tap)."""
    bias = args.optional_tensor("bias")
    return gemm.Gemm(
        m=conv.out_channels,
        n=math.prod(conv.out_size),
        k=conv.in_channels * math.prod(conv.kernel),
        batches=conv.batch,
        addend=bias,
        addend_strides=(1, 0),
        beta=float(bias is not None),
        stored=stored_type(args, ending),
    )


def is_product(conv: Convolution, product: gemm.Gemm) -> bool:
    """Whether it is one, of a size for one dispatch."""
    return conv.groups == 1 and not conv.transposed and gemm_small.is_small(product)


def multiplied(args: Args, ending: ConvEpilogue, product: gemm.Gemm) -> Dispatch:
    end = gemm_small.Epilogue(ending.beside, ending.formula, ending.scalars, ending.per_channel)
    (x, weight, _), step = inputs(args, ending), product.k * product.n
    whole = gemm_small.SmallGemm(product, weight, x, 0, step, False, end, args.target)
    return whole.dispatch(ending.out.id)


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


def lower_direct(args: Args, conv: Convolution, ending: ConvEpilogue) -> Dispatch:
    block, blocks, runs = direct_grid(conv)
    window = (RUN - 1) * conv.stride.w + (conv.kernel.w - 1) * conv.dilation.w + 1
    sizes = (window, conv.kernel.w, conv.stride.w, conv.dilation.w)
    if conv.transposed or window > MAX_WINDOW:
        sizes = (0, 0, 0, 0)
    names = ("WINDOW", "WINDOW_TAPS", "WINDOW_STRIDE", "WINDOW_DILATION")
    return Dispatch(
        kernel="conv_direct",
        bindings=(*inputs(args, ending), ending.beside_id, ending.out.id),
        params=pack_params(conv, ending, blocks, runs),
        grid=fold_grid(ceil_div(direct_invocations(conv), WORKGROUP_SIZE)),
        types=(
            *ending.types,
            ("BLOCK", str(block)),
            ("FLOAT", stored_type(args, ending)),
            *((name, str(size)) for name, size in zip(names, sizes, strict=True)),
        ),
        overrides=overrides(args, conv, ending),
    )


def lower_simple(args: Args, conv: Convolution, ending: ConvEpilogue) -> Dispatch:
    """For a software adapter."""
    block, blocks, runs = direct_grid(conv)
    return Dispatch(
        kernel="conv_simple",
        bindings=(*inputs(args, ending), ending.beside_id, ending.out.id),
        params=pack_params(conv, ending, blocks, runs),
        grid=fold_grid(ceil_div(direct_invocations(conv), WORKGROUP_SIZE)),
        types=(("BLOCK", str(block)), ("FLOAT", stored_type(args, ending))),
        overrides=(
            ("HAS_ADDED", ending.beside is not None),
            ("HAS_BIAS", args.optional_tensor("bias") is not None),
            ("TRANSPOSED", conv.transposed),
        ),
    )


# The tiled kernels


def lower_tiled(
    args: Args, conv: Convolution, ending: ConvEpilogue, tile: ConvTile, splits: int
) -> list[Dispatch]:
    out, copies = ending.out, conv.groups * math.prod(conv.phases)
    pixels = conv.batch * math.prod(conv.phase_size)
    rows, columns = ceil_div(conv.out_channels, tile.rows), ceil_div(pixels, tile.columns)
    terms = conv.in_channels * conv.phase_taps
    split_terms = ceil_div(terms, splits * tile.step) * tile.step
    quads = quad_count(out.numel)
    # Sizes that are powers of two let calls of similar size share their memory.
    parts = Scratch("conv_parts", 1 << (splits * quads * 16 - 1).bit_length())
    taps = (("KERNEL_H", conv.kernel.h), ("KERNEL_W", conv.kernel.w))
    whole = terms % 4 == 0 and not conv.transposed
    own = (("SPLIT", splits > 1), *(() if conv.is_pointwise else taps), ("WHOLE_WEIGHTS", whole))
    stored, first = (
        stored_type(args, ending),
        ending if splits == 1 else ConvEpilogue(out, formula="x"),
    )
    product = Dispatch(
        kernel="conv_pointwise" if conv.is_pointwise else "conv",
        bindings=(*inputs(args, ending), first.beside_id, out.id if splits == 1 else parts),
        params=pack_params(conv, first, rows, columns, splits, split_terms),
        grid=fold_grid(rows * columns * splits * copies),
        types=(
            *first.types,
            ("FLOAT", stored),
            ("OUT", stored if splits == 1 else "f32"),
            ("STEP", str(tile.step)),
            ("TILE_COLUMNS", str(tile.columns)),
            ("TILE_ROWS", str(tile.rows)),
            ("WEIGHT", f"vec4<{stored}>" if whole else stored),
            ("WEIGHT_AT", "weight[at / 4u][at % 4u]" if whole else "weight[at]"),
            ("WEIGHT_RUN", "vec4<f32>(weight[at / 4u])" if whole else "vec4<f32>()"),
        ),
        overrides=(*overrides(args, conv, first), *own),
    )
    return [product] if splits == 1 else [product, lower_sum(args, conv, ending, parts, splits)]


def lower_sum(
    args: Args, conv: Convolution, ending: ConvEpilogue, parts: Scratch, splits: int
) -> Dispatch:
    quads = quad_count(ending.out.numel)
    channels, size = conv.groups * conv.out_channels, math.prod(conv.out_size)
    bias = inputs(args, ending)[2]
    return Dispatch(
        kernel="conv_split_k_sum",
        bindings=(parts, bias, ending.beside_id, ending.out.id),
        params=pack("4I2fI", quads, splits, channels, size, *ending.scalars, ending.length),
        grid=quad_grid(quads),
        types=(*ending.types, ("FLOAT", stored_type(args, ending))),
        overrides=end_overrides(args, ending),
    )


def inputs(args: Args, ending: ConvEpilogue) -> tuple[Binding, Binding, Binding]:
    bias = args.optional_tensor("bias")
    source = ending.padded.source if ending.padded else args.tensor("input")
    return source.id, args.tensor("weight").id, None if bias is None else bias.id


def stored_type(args: Args, ending: ConvEpilogue) -> str:
    given = args.tensor("input"), args.tensor("weight"), args.optional_tensor("bias")
    return float_type(args, *given, ending.beside, ending.out)


def end_overrides(args: Args, ending: ConvEpilogue) -> tuple[tuple[str, float], ...]:
    return ending.override, ("HAS_BIAS", args.optional_tensor("bias") is not None)


def overrides(args: Args, conv: Convolution, ending: ConvEpilogue) -> tuple[tuple[str, float], ...]:
    return (*end_overrides(args, ending), ("TRANSPOSED", conv.transposed))


def pack_params(
    conv: Convolution,
    ending: ConvEpilogue | None,
    rows: int,
    columns: int,
    splits: int = 1,
    split_terms: int = 0,
) -> bytes:
    """Params of wgsl/lib/conv/conv.wgsl."""
    return pack(
        "10I6i2I2i2f5I",
        *(conv.batch, conv.groups, conv.in_channels, conv.out_channels),
        *(*conv.in_size, *conv.out_size, *conv.kernel),
        *(*conv.stride, *conv.padding, *conv.dilation, *conv.phases, *conv.tap_step),
        *(ending.scalars if ending else (0, 0)),
        *(rows, columns, splits, split_terms, ending.length if ending else 0),
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


for _name, _signature in OPS.items():
    _clamped = "output_min" in _signature
    register(
        _name,
        _signature,
        shape=conv_shape,
        lower=lambda args, clamped=_clamped: lower_conv(args, clamped),  # type: ignore[misc]
        reference=lambda args, clamped=_clamped: run_conv(args, clamped),  # type: ignore[misc]
    )
