"""Linear layers whose weights are integers of 4 or 8 bits, with their training ops.

    linear_q4gsw          y = x[..., K] @ W^T + bias; W[n, k] = code * scales[k / group_size, n]
    linear_qcs4w          linear_q4gsw with a scale per row of W
    linear_dq8ca_q4gsw    linear_q4gsw, with each row of x rounded to int8 first; with `inverted`,
                          x_scale has the inverses of scales
    _weight_int8pack_mm   y = x @ W^T; W[n, k] = code * scales[n], codes of 8 bits
    linear_q4gsw_backward d_x = d_out[..., N] @ W
    q4gsw_requant         the codes nearest to a float weight [N, K]

Codes of 4 bits lie two to a byte, each 8 too large: W is uint8 [N, >= K / 2]. The exporter rounds
its width up to a multiple of 4 bytes, the scales' and the bias's to a multiple of 4 floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import WORKGROUP_SIZE, float_type
from webpte.engine.ops.core.records import Dispatch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.gemm.gemv_q4 import choose_gemv_config, gemv_dispatch, is_gemv
from webpte.engine.ops.gemm.lib.gemm import (
    Gemm,
    GemmKernel,
    Overrides,
    SkinnyConfig,
    Types,
    choose_skinny_config,
    is_skinny,
    simple_dispatches,
    skinny_dispatches,
    tile_dispatches,
)
from webpte.engine.ops.gemm.lib.packed_weights import (
    BYTES,
    HIGH_FIRST,
    LOW_FIRST,
    PackedWeights,
    check_types,
    fits,
    grouped,
    per_row,
    unpacked,
)
from webpte.engine.ops.gemm.lib.prologue import (
    NORMED_THREADS,
    Prologue,
    gain_of,
    gemv_overrides,
    pack_prologue,
    prologue_overrides,
    prologue_types,
    quantizes_x,
)
from webpte.engine.ops.gemm.linear_int8 import integer_dispatches, takes_integers
from webpte.engine.ops.gemm.skinny_config import skinny_config, suits_batch
from webpte.engine.ops.gemm.subgroup_matrix.linear_q4 import matrix_linear
from webpte.engine.ops.gemm.subgroup_matrix.tiles import takes_matrices
from webpte.engine.ops.quant.quantize import RowParams, scale_pair
from webpte.engine.shapes import Dims, numel
from webpte.errors import GraphError

Array = np.ndarray


@dataclass(frozen=True)
class LinearQ4:
    """A single op; `per_row`: a scale per row of W, `quantized`: x is rounded to int8."""

    name: str
    signature: str
    format: int
    per_row: bool = False
    quantized: bool = False


LINEARS = (
    LinearQ4(
        "et_vk.linear_q4gsw.default",
        "x: tensor, weight: tensor, scales: tensor, group_size: int, bias: tensor? = None "
        "-> tensor",
        LOW_FIRST,
    ),
    LinearQ4(
        "et_vk.linear_dq8ca_q4gsw.default",
        "x: tensor, x_scale: tensor, x_zero: tensor, weight: tensor, sums: any, scales: tensor, "
        "group_size: int, bias: tensor? = None, inverted: bool = False -> tensor",
        LOW_FIRST,
        quantized=True,
    ),
    LinearQ4(
        "et_vk.linear_qcs4w.default",
        "x: tensor, weight: tensor, scales: tensor -> tensor",
        HIGH_FIRST,
        per_row=True,
    ),
    LinearQ4(
        "aten._weight_int8pack_mm.default",
        "x: tensor, weight: tensor, scales: tensor -> tensor",
        BYTES,
        per_row=True,
    ),
)

BACKWARD = "d_out: tensor, weight: tensor, scales: tensor, group_size: int -> tensor"
REQUANT = "latent: tensor, scales: tensor, group_size: int -> tensor"


def weights_of(op: LinearQ4, args: Args) -> PackedWeights:
    """Return the weights of a call, after checking all shapes."""
    x, weight = args.tensor("x"), args.tensor("weight")
    check_types(args, (x, args.tensor("scales")), weight)
    inner = x.dims[-1] if x.rank else 0
    fitting = weight.dims[1] == inner if op.format == BYTES else fits(inner, weight.dims[1])
    if x.rank == 0 or not fitting:
        raise GraphError(
            f"{args.call}: weights {list(weight.dims)} do not fit rows of x {list(x.dims)}"
        )
    if op.per_row:
        return per_row(args, weight, inner, op.format)
    return grouped(args, weight, inner)


def linear_shape(op: LinearQ4, args: Args) -> tuple[Dims]:
    weights, x = weights_of(op, args), args.tensor("x")
    return ((*x.dims[:-1], weights.rows),)


def bias_of(op: LinearQ4, args: Args, columns: int) -> TensorArg | None:
    bias = None if op.per_row else args.optional_tensor("bias")
    if bias is not None and (bias.rank != 1 or bias.numel < columns):
        raise GraphError(f"{args.call}: bias {list(bias.dims)} for {columns} columns")
    return bias


def row_params(op: LinearQ4, args: Args, rows: int) -> RowParams | None:
    """Return the scales and the zeros of the rows of x, or None if x is not quantized."""
    if not op.quantized:
        return None
    scale, zero = args.tensor("x_scale"), args.tensor("x_zero")
    if scale.numel != rows or zero.numel != rows:
        raise GraphError(
            f"{args.call}: {scale.numel} scales and {zero.numel} zeros for {rows} rows of x"
        )
    return RowParams(scale, zero, args.flag("inverted"))


def gemm_of(op: LinearQ4, args: Args) -> Gemm:
    """Return the sizes of the GEMM, with the bias as its addend."""
    weights, x = weights_of(op, args), args.tensor("x")
    gemm = Gemm(numel(x.dims[:-1]), weights.rows, weights.inner)
    return gemm.with_bias(bias_of(op, args, gemm.n))


def lower_linear(
    op: LinearQ4,
    args: Args,
    added: TensorArg | None = None,
    norm: Prologue | None = None,
    out: TensorArg | None = None,
    bias: TensorArg | None = None,
) -> list[Dispatch]:
    """Lower a linear layer; later calls add `bias` and `added` to its result."""
    weights, x, out = weights_of(op, args), args.tensor("x"), out or args.out
    gemm = gemm_of(op, args).with_bias(bias).plus(added)
    rows = None if quantizes_x(norm) else row_params(op, args, gemm.m)
    others = (rows.scale if rows else None, norm.gain if norm else None, out)
    stored = float_type(args, x, weights.scales, gemm.addend, *others)
    gemm = replace(gemm, stored=stored)
    kernel = kernel_of(norm.x if norm else x, weights, rows)
    if args.target.software:
        return simple_dispatches(simple(kernel), gemm, out.id)
    if not is_skinny(gemm):
        if takes_matrices(gemm, args.target):
            return matrix_linear(kernel, weights, gemm, out.id, args.target)
        if not suits_batch(gemm, weights, args.target) or rows is not None:
            if takes_integers(gemm, weights, rows is not None, args.target):
                return integer_dispatches(kernel, gemm, out.id, args.target)
            return tile_dispatches(kernel, gemm, out.id, args.target)
    if rows is None and is_gemv(gemm, [weights], norm, args.target):
        return [lower_gemv(x, weights, gemm, norm, out.id, args.target)]
    config = skinny_config(weights, gemm, args.target)
    if norm is not None and config.threads > NORMED_THREADS:
        config = choose_skinny_config(weights.steps, NORMED_THREADS, NORMED_THREADS)
    skinny = skinny_kernel(kernel, weights, norm)
    skinny = replace(skinny, types=(*skinny.types, twice_type(config)))
    return skinny_dispatches(skinny, gemm, out.id, config)


def lower_gemv(
    x: TensorArg,
    weights: PackedWeights,
    gemm: Gemm,
    norm: Prologue | None,
    out: int,
    target: Target,
) -> Dispatch:
    config = choose_gemv_config(weights, 1, target, norm)
    normed = (*gemv_overrides(norm), ("RESIDUAL", False))
    types = (*config.types(weights, 1), ("FORMULA", "x"))
    kernel = normed_kernel("gemv_q4", x, [weights], norm, types, normed)
    kernel = replace(kernel, params=weights.params + pack_prologue(norm) + bytes(12))
    return gemv_dispatch(kernel, gemm, (gemm.addend_id, None, out), config)


def normed_kernel(
    name: str,
    x: TensorArg,
    weights: Sequence[PackedWeights],
    norm: Prologue | None,
    types: Types,
    overrides: Overrides,
) -> GemmKernel:
    """Return a kernel that reads and normalizes x once for all the weights."""
    pairs = [id for w in weights for id in (w.tensor.id, w.scales.id)]
    return GemmKernel(
        name=name,
        operands=(norm.x.id if norm else x.id, gain_of(norm), *pairs),
        types=types,
        overrides=(*weights[0].unit_overrides, *overrides),
    )


def twice_type(config: SkinnyConfig) -> tuple[str, str]:
    """Return the constant TWICE: whether invocations have eight columns."""
    return "TWICE", str(config.twice).lower()


def skinny_kernel(kernel: GemmKernel, weights: PackedWeights, norm: Prologue | None) -> GemmKernel:
    return replace(
        kernel,
        name="linear_q4_skinny",
        operands=(*kernel.operands, gain_of(norm)),
        types=(*kernel.types, *prologue_types(norm)),
        overrides=(*kernel.overrides, *prologue_overrides(norm), ("WIDE", weights.wide)),
        params=kernel.params + pack_prologue(norm),
    )


def kernel_of(x: TensorArg, weights: PackedWeights, rows: RowParams | None = None) -> GemmKernel:
    scale, zero = (rows.scale.id, rows.zero.id) if rows else (None, None)
    return GemmKernel(
        name="linear_q4",
        operands=(x.id, scale, zero, weights.tensor.id, weights.scales.id),
        types=(("ZERO", rows.zero.dtype.wgsl if rows else "i8"),),
        overrides=(
            *weights.overrides,
            ("QUANTIZED", rows is not None),
            ("X_ALIGNED", x.dims[-1] % 4 == 0),
            *(rows.overrides if rows else ()),
        ),
        params=weights.params,
    )


def fake_quantize_int8(x: Array, given: Array, zero: Array, inverted: bool) -> Array:
    """Round as the op does, in float32: float64 could decide ties otherwise."""
    scale, inverse = scale_pair(given.reshape(-1, 1), inverted)
    zero = zero.reshape(-1, 1).astype(np.float32)
    return (np.clip(np.round(x * inverse) + zero, -128, 127) - zero) * scale.astype(np.float64)


def run_linear(op: LinearQ4, args: Args) -> Array:
    weights, x = weights_of(op, args), args.array("x")
    rows: Array = x.reshape(numel(x.shape[:-1]), x.shape[-1]).astype(np.float32)
    if op.quantized:
        given = args.array("x_scale"), args.array("x_zero"), args.flag("inverted")
        rows = fake_quantize_int8(rows, *given)
    matrix = unpacked(weights, args.array("weight"), args.array("scales"))
    result = rows.astype(np.float64) @ matrix.T
    if not op.per_row and (bias := args.optional_array("bias")) is not None:
        result = result + bias[: weights.rows]
    return result.reshape(*x.shape[:-1], weights.rows).astype(args.out.dtype.numpy)


def simple(kernel: GemmKernel) -> GemmKernel:
    """Return the kernel for a software adapter, for all alignments and group sizes."""
    dropped = ("GROUP_SIZE", "SCALES_ALIGNED", "WEIGHTS_ALIGNED", "X_ALIGNED")
    kept = [pair for pair in kernel.overrides if pair[0] not in dropped]
    return replace(kernel, name="linear_q4_simple", overrides=tuple(kept))


# Training


def backward_weights(args: Args) -> PackedWeights:
    """Return the weights; the output gives their columns, as packed rows may end in padding."""
    d_out, weight = args.tensor("d_out"), args.tensor("weight")
    check_types(args, (d_out, args.tensor("scales")), weight)
    inner = args.out.maximum[-1] if args.out.rank else 0
    if d_out.rank == 0 or d_out.dims[-1] != weight.dims[0] or not fits(inner, weight.dims[1]):
        raise GraphError(
            f"{args.call}: gradient {list(d_out.dims)} and weights {list(weight.dims)} "
            f"do not give {inner} columns"
        )
    return grouped(args, weight, inner)


def lower_backward(args: Args) -> list[Dispatch]:
    weights, d_out = backward_weights(args), args.tensor("d_out")
    kernel = kernel_of(d_out, weights)
    backward = replace(kernel, overrides=(*kernel.overrides, ("BACKWARD", True)))
    stored = float_type(args, d_out, weights.scales, args.out)
    gemm = Gemm(numel(d_out.dims[:-1]), weights.inner, weights.rows, stored=stored)
    if args.target.software:
        return simple_dispatches(simple(backward), gemm, args.out.id)
    return tile_dispatches(backward, gemm, args.out.id, args.target)


def run_backward(args: Args) -> Array:
    weights = backward_weights(args)
    matrix = unpacked(weights, args.array("weight"), args.array("scales"))
    return (args.array("d_out").astype(np.float64) @ matrix).astype(args.out.dtype.numpy)


def requant_shape(args: Args) -> tuple[Dims]:
    latent, scales = args.tensor("latent"), args.tensor("scales")
    group = args.integer("group_size")
    if latent.rank != 2 or scales.rank != 2 or group <= 0:
        raise GraphError(f"{args.call}: takes matrices and a group size, not {group}")
    rows, inner = latent.dims
    if scales.dims[0] * group < inner or scales.dims[1] < rows:
        raise GraphError(
            f"{args.call}: scales {list(scales.dims)} do not cover {list(latent.dims)} "
            f"in groups of {group}"
        )
    return ((rows, (inner + 1) // 2),)


def lower_requant(args: Args) -> list[Dispatch]:
    latent, scales, out = args.tensor("latent"), args.tensor("scales"), args.out
    if out.numel == 0:
        return []
    return [
        Dispatch(
            kernel="linear_q4_requant",
            bindings=(latent.id, scales.id, out.id),
            params=pack(
                "5I",
                *(out.numel, out.dims[1], latent.dims[1]),
                *(args.integer("group_size"), scales.dims[1]),
            ),
            grid=fold_grid(ceil_div(ceil_div(out.numel, 4), WORKGROUP_SIZE)),
            types=(("FLOAT", float_type(args, latent, scales)),),
        )
    ]


def run_requant(args: Args) -> Array:
    latent, scales = args.array("latent").astype(np.float32), args.array("scales")
    rows, inner = latent.shape
    groups = np.arange(inner) // args.integer("group_size")
    scale = scales[groups, :rows].T.astype(np.float32)
    quotient = np.divide(latent, scale, out=np.zeros_like(latent), where=scale != 0)
    codes = (np.clip(np.round(quotient), -8, 7) + 8).astype(np.uint8)
    codes = np.pad(codes, ((0, 0), (0, inner % 2)))
    return codes[:, ::2] | codes[:, 1::2] << 4


for _op in LINEARS:
    register(
        _op.name,
        _op.signature,
        shape=lambda args, op=_op: linear_shape(op, args),  # type: ignore[misc]
        lower=lambda args, op=_op: lower_linear(op, args),  # type: ignore[misc]
        reference=lambda args, op=_op: run_linear(op, args),  # type: ignore[misc]
    )

register(
    "et_vk.linear_q4gsw_backward.default",
    BACKWARD,
    shape=lambda args: ((*args.tensor("d_out").dims[:-1], backward_weights(args).inner),),
    lower=lower_backward,
    reference=run_backward,
)

register(
    "et_vk.q4gsw_requant.default",
    REQUANT,
    shape=requant_shape,
    lower=lower_requant,
    reference=run_requant,
)
