"""Quantized linear layers fused with a norm before, a residual after, a gate, or as q, k and v.

    gemm_add     GEMM + residual, of any size: the residual becomes the addend
    normed_gemm  rms_norm, then a skinny GEMM
    gated_gemm   f(x @ gate) * (x @ up), f being silu, gelu or relu; skinny, with or without the
                 norm before, or of many rows by subgroup matrices

The GEMMs come from `linear_q4` and, for additions, also from `matmul`. If no kernel takes the
sizes, the calls run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.fused_call import (
    FusedStep,
    Part,
    grouped,
    lower_parts,
    parts_of,
    register_fusion,
    single_steps,
)
from webpte.engine.ops.core.quads import float_type
from webpte.engine.ops.core.records import Binding, Dispatch, ceil_div, pack
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.elementwise import unary
from webpte.engine.ops.elementwise.fused_elementwise import NAMES, chain_dispatches
from webpte.engine.ops.gemm.computed_row import lower_with_row, row_kernel, takes_row, with_row
from webpte.engine.ops.gemm.gemv_multi import lower_gemv_multi
from webpte.engine.ops.gemm.gemv_q4 import choose_gemv_config, gemv_dispatch, is_gemv
from webpte.engine.ops.gemm.joined_linears import joined_linears
from webpte.engine.ops.gemm.lib.epilogue import adding
from webpte.engine.ops.gemm.lib.gemm import (
    Gemm,
    GemmKernel,
    SkinnyConfig,
    Types,
    choose_skinny_config,
    is_skinny,
    skinny_dispatches,
)
from webpte.engine.ops.gemm.lib.packed_weights import PackedWeights
from webpte.engine.ops.gemm.lib.prologue import (
    NORMED_THREADS,
    Prologue,
    gemv_overrides,
    is_centered,
    pack_prologue,
    prologue_overrides,
    prologue_types,
)
from webpte.engine.ops.gemm.linear_int8 import rounded_once
from webpte.engine.ops.gemm.linear_q4 import (
    LINEARS,
    LinearQ4,
    gemm_of,
    lower_linear,
    normed_kernel,
    twice_type,
    weights_of,
)
from webpte.engine.ops.gemm.matmul import LINEAR, MATMUL_OF, gemm_with_epilogue, lower_matmul
from webpte.engine.ops.gemm.skinny_config import batch_config, is_batch
from webpte.engine.ops.gemm.subgroup_matrix.linear_q4 import matrix_gated
from webpte.engine.ops.gemm.subgroup_matrix.tiles import takes_matrices
from webpte.engine.ops.norm.fused_norm import LAYER_NORM, RMS_NORM, NormedSum
from webpte.engine.ops.quant.choose_qparams import CHOOSE, INVERSE_FIRST, MAPPINGS

GEMM_ADD = "webpte.gemm_add"
NORMED_GEMM = "webpte.normed_gemm"
GATED_GEMM = "webpte.gated_gemm"

LINEAR_OF = {op.name: op for op in LINEARS}
# Linear layers that round x to int8 with given scales and zeros, and the other linear layers.
QUANTIZED_INPUT_LINEARS = frozenset(op.name for op in LINEARS if op.quantized)
PLAIN_LINEARS = frozenset({LINEAR, *(op.name for op in LINEARS if not op.quantized)})
ALL_LINEARS = frozenset({LINEAR, *LINEAR_OF})
CHOOSE_OF = {op.name: op for op in CHOOSE}
# Activations of a gate, all without scalars.
GATES = frozenset({"aten.silu.default", "aten.relu.default", unary.GELU_NAME})
SILU_FORMULA = unary.FUNCTIONS["silu"][0]


def lower_gemm_add(args: Args) -> list[Dispatch]:
    """Lower a GEMM and the sum with a residual, including the rounding of x if it is fused."""
    parts = list(parts_of(args))
    before, rest = parts[: -len(gemm_to_sum(parts))], gemm_to_sum(parts)
    if not before:
        return sum_dispatches(rest) or lower_parts(args)
    prologue, (op, linear) = prologue_of(before), rest[0]
    gemm, x = gemm_of(LINEAR_OF[op.name], linear), linear.tensor("x")
    skinny = fits_skinny(gemm, prologue, x, args.target)
    if prologue is not None and skinny and not args.target.software:
        found = sum_dispatches(rest, prologue)
        if found is not None:
            return found
    return lower_parts(args, [*single_steps(before), FusedStep(tuple(rest), sum_dispatches)])


def gemm_to_sum(parts: list[Part]) -> list[Part]:
    """Return the GEMM, the views after it and the sum with the residual."""
    index = next(i for i, (op, _) in enumerate(parts) if op.name in {*LINEAR_OF, *MATMUL_OF})
    return parts[index:]


def sum_dispatches(
    parts: Sequence[Part], prologue: Prologue | None = None
) -> list[Dispatch] | None:
    """Return a GEMM with the residual as its addend, or None if no kernel takes the residual."""
    (op, first), (_, addition), views = parts[0], parts[-1], parts[1:-1]
    own, out = {first.out.id, *(view.out.id for _, view in views)}, addition.out
    added = next(t for t in (addition.tensor("self"), addition.tensor("other")) if t.id not in own)
    # A sum larger than either operand was broadcast; a sum of another type was promoted.
    sizes, types = {t.numel for t in (first.out, added, out)}, {t.dtype for t in (added, out)}
    if len(sizes) > 1 or types != {first.out.dtype}:
        return None
    if op.name in LINEAR_OF:
        linear = LINEAR_OF[op.name]
        if gemm_of(linear, first).can_add(added):
            return lower_linear(linear, first, added, prologue, out)
        return None
    matmul = MATMUL_OF[op.name]
    if (found := gemm_with_epilogue(matmul, first, adding(added), out)) is not None:
        return found
    if matmul.operands(first).gemm.can_add(added):
        return lower_matmul(matmul, first, added, out=out)
    return None


# Skinny GEMMs


def prologue_of(parts: Sequence[Part]) -> Prologue | None:
    """Return the leading norm and rounding of x; None if there is neither.

    If no kernel has the rounding, the prologue's x has an inner size of 0, which fits no GEMM.
    """
    op, first = parts[0]
    prologue = None
    if op.name == RMS_NORM:
        x, gain = first.tensor("input"), first.tensor("weight")
        prologue = Prologue(x, gain, first.number("eps"))
    if op.name == LAYER_NORM:
        x, gain = first.tensor("input"), first.tensor("weight")
        prologue = Prologue(x, gain, first.number("eps"), centered=True)
    chosen = next((part for op, part in parts if op.name in CHOOSE_OF), None)
    if chosen is None:
        return prologue
    choice = CHOOSE_OF[chosen.call.name].rule(chosen)
    x = chosen.tensor("x")
    rows = choice.block == (*(1 for _ in x.dims[:-1]), x.dims[-1])
    mappings = (MAPPINGS["ASYMMETRIC"], INVERSE_FIRST)
    known = choice.mapping in mappings and (choice.low, choice.high) == (-128, 127)
    if not rows or not known:
        return Prologue(x.with_dims((*x.dims[:-1], 0)))
    inverse_first = choice.mapping == INVERSE_FIRST
    return replace(prologue or Prologue(x), least=choice.epsilon, inverse_first=inverse_first)


def centered_first(parts: Sequence[Part]) -> bool:
    """Return whether a layer norm comes first."""
    return parts[0][0].name == LAYER_NORM


def lower_after_norm(
    args: Args, parts: list[Part], lower: Callable[[list[Part]], list[Dispatch] | None]
) -> list[Dispatch]:
    """Lower the norm first, then the other parts at once, or part by part."""
    return lower_parts(args, steps_after_norm(parts, lower))


def steps_after_norm(
    parts: list[Part], lower: Callable[[list[Part]], list[Dispatch] | None]
) -> list[FusedStep]:
    """Return the norm as a step, and the other parts as a second step."""
    return [FusedStep((parts[0],)), FusedStep(tuple(parts[1:]), lambda own: lower([*own]))]


def lower_float_gemv(
    args: Args, parts: list[Part], norm: Prologue | None, gate: str | None = None
) -> list[Dispatch] | None:
    """Return dispatches of skinny float GEMMs; None if a layer is quantized or no kernel fits."""
    linears, (out,) = [part for op, part in parts if op.name == LINEAR], args.outs
    if not linears or out.dtype != linears[0].out.dtype:
        return None
    return lower_gemv_multi(linears, norm, out.id, out.dtype.wgsl, gate)


def linears_of(parts: list[Part]) -> list[tuple[LinearQ4, Args]]:
    """Return the quantized linear layers among the parts."""
    return [(LINEAR_OF[op.name], part) for op, part in parts if op.name in LINEAR_OF]


def fits_skinny(gemm: Gemm, norm: Prologue | None, x: TensorArg, target: Target) -> bool:
    """Return whether a skinny kernel takes a GEMM, and its norm is over k.

    With more rows than usual a norm is refused: each of many columns would compute it again.
    """
    along = norm is None or norm.x.dims[-1] == gemm.k
    many = is_batch(gemm) and norm is None and not takes_matrices(gemm, target)
    few = is_skinny(gemm) or many
    return gemm.m > 0 and few and along and x.dims[-1] == gemm.k


def lower_normed_gemm(args: Args) -> list[Dispatch]:
    """Lower a norm and the linear layer after it."""
    parts = list(parts_of(args))
    norm, (out,) = prologue_of(parts), args.outs
    if any(op.name == LINEAR for op, _ in parts):
        return lower_float_gemv(args, parts, norm) or lower_parts(args)
    ((op, linear),) = linears_of(parts)
    fits = fits_skinny(gemm_of(op, linear), norm, linear.tensor("x"), args.target)
    if args.target.software or not fits:
        return lower_parts(args)
    return lower_linear(op, linear, norm=norm, out=out)


def are_alike(weights: list[PackedWeights]) -> bool:
    """Return whether a single kernel takes these weights: they may differ in their rows only."""
    packings = {(w.format, w.inner, w.row_bytes, w.group) for w in weights}
    whole = all(w.in_quads for w in weights) and weights[0].inner % 4 == 0
    return len(packings) == 1 and whole


def multi_config(
    weights: PackedWeights, gemm: Gemm, target: Target, twice: bool = False
) -> SkinnyConfig:
    """Return the config of a kernel that reads x once for several weights.

    `twice`: for many rows, an invocation has eight columns of the same weight.
    """
    if not is_skinny(gemm):
        return batch_config(weights, gemm, target, twice)
    return choose_skinny_config(weights.steps, NORMED_THREADS, NORMED_THREADS)


def multi_kernel(
    name: str, x: TensorArg, weights: list[PackedWeights], norm: Prologue | None
) -> GemmKernel:
    """Return a skinny kernel that reads x once for several weights."""
    types, overrides = prologue_types(norm), prologue_overrides(norm)
    return normed_kernel(name, x, weights, norm, types, overrides)


def gemv_kernel(
    name: str, x: TensorArg, weights: list[PackedWeights], norm: Prologue | None, types: Types
) -> GemmKernel:
    """Return a GEMV kernel that reads x once for several weights."""
    kernel = normed_kernel(name, x, weights, norm, types, gemv_overrides(norm))
    return row_kernel(kernel, norm) if norm and norm.row else kernel


def lower_gated_gemm(args: Args) -> list[Dispatch]:
    """Lower f(x @ gate) * (x @ up)."""
    parts = list(parts_of(args))
    return rounded_once(lower_with_row(args, parts, gated_dispatches, gated_steps))


def gated_steps(args: Args, parts: list[Part]) -> list[FusedStep]:
    """Return the steps of f(x @ gate) * (x @ up), as few as the kernels allow."""
    if not broadcasts(parts):
        if found := gated_dispatches(args, parts):
            return [FusedStep(tuple(parts), lambda _: found)]
        if parts[0][0].name == RMS_NORM and (rest := gated_dispatches(args, parts[1:])):
            return steps_after_norm(parts, lambda _: rest)
        if steps := gated_matrix_steps(args, parts):
            return steps
    return grouped(parts, NAMES, chain_dispatches)


def gated_matrix_steps(args: Args, parts: Sequence[Part]) -> list[FusedStep] | None:
    """Return the leading steps, then a GEMM by subgroup matrices for all other parts if it fits."""
    linears, out = linears_of(list(parts)), args.outs[-1]
    gemms = [gemm_of(op, part) for op, part in linears]
    if not linears or len({gemm.n for gemm in gemms}) > 1 or any(gemm.addend for gemm in gemms):
        return None
    joined = joined_linears(linears, (None, None), [out, *(part.out for _, part in linears)])
    if joined is None:
        return None
    index = next(i for i, (op, _) in enumerate(parts) if op.name in LINEAR_OF)
    formula = gate_formula(parts)
    rest = FusedStep(tuple(parts[index:]), lambda _: matrix_gated(joined, formula, out))
    return [*single_steps(parts[:index]), rest]


def gate_formula(parts: Sequence[Part]) -> str:
    """Return the gate's formula: an activation's, or silu written out as two calls."""
    for op, part in parts:
        if op.name in GATES and (found := unary.float_formula(op.name, part)) is not None:
            return found[0]
    return SILU_FORMULA


def broadcasts(parts: Sequence[Part]) -> bool:
    """Return whether views turn a row into a column, which makes the gate larger than a GEMM."""
    index = next(i for i, (op, _) in enumerate(parts) if op.name in ALL_LINEARS)
    return len({part.out.numel for _, part in parts[index:]}) > 1


def gated_dispatches(
    args: Args, parts: list[Part], row: NormedSum | None = None
) -> list[Dispatch] | None:
    """Return a dispatch for all parts, or None if no kernel takes them."""
    norm, out, linears = prologue_of(parts), args.outs[-1], linears_of(parts)
    if not linears:
        return lower_float_gemv(args, parts, norm, gate_formula(parts))
    (gate, first), (up, second) = linears
    gemm, x = gemm_of(gate, first), first.tensor("x")
    weights = [weights_of(op, part) for op, part in linears]
    same = gemm == gemm_of(up, second) and gemm.addend is None
    strides = weights[0].scale_stride == weights[1].scale_stride
    fits = same and strides and are_alike(weights) and fits_skinny(gemm, norm, x, args.target)
    if args.target.software or not fits:
        return None
    gain = norm.gain if norm else None
    stored = float_type(args, x, *(w.scales for w in weights), gain, out)
    gemm, norm = replace(gemm, stored=stored), with_row(norm, row, x)
    params = weights[0].params + pack_prologue(norm)
    gemv_fits = is_gemv(gemm, weights, norm, args.target)
    if row is not None and not (gemv_fits and takes_row(row, gemm, norm, args.target, 10)):
        return None
    if gemv_fits:
        gemv = choose_gemv_config(weights[0], 2, args.target, norm)
        types = (*gemv.types(weights[0], 2), ("GATE", gate_formula(parts)))
        kernel = gemv_kernel("gemv_q4_gated", x, weights, norm, types)
        return [gemv_dispatch(replace(kernel, params=params), gemm, (out.id,), gemv)]
    skinny = multi_config(weights[0], gemm, args.target)
    kernel = multi_kernel("linear_q4_skinny_gated", x, weights, norm)
    at_once = ("TWICE", str(not is_skinny(gemm)).lower())
    kernel = replace(kernel, types=(*kernel.types, ("GATE", gate_formula(parts)), at_once))
    dispatches = skinny_dispatches(replace(kernel, params=params), gemm, out.id, skinny)
    # The kernel has no binding for an addend.
    return [replace(d, bindings=(*d.bindings[:-2], d.bindings[-1])) for d in dispatches]


def lower_qkv(
    linears: list[tuple[LinearQ4, Args]],
    norm: Prologue | None,
    out: Binding,
    biases_follow: bool = False,
    row: NormedSum | None = None,
) -> list[Dispatch] | None:
    """Return three GEMMs of the same x with adjacent f32 outputs, or None if no kernel fits.

    `biases_follow`: the reader of the output adds the biases. `row`: the sum and norm that compute
    x.
    """
    gemms = [gemm_of(op, part) for op, part in linears]
    gemms = [gemm.plain for gemm in gemms] if biases_follow else gemms
    weights = [weights_of(op, part) for op, part in linears]
    part, x = linears[0][1], linears[0][1].tensor("x")
    plain = all(gemm.addend is None for gemm in gemms)
    fits = fits_skinny(gemms[0], norm, x, part.target)
    if not plain or not are_alike(weights) or not fits:
        return None
    stored = float_type(part, x, *(w.scales for w in weights), norm.gain if norm else None)
    skinny, gemv = multi_config(weights[0], gemms[0], part.target, twice=True), None
    if all(is_gemv(gemm, weights, norm, part.target) for gemm in gemms):
        gemv = choose_gemv_config(weights[0], 1, part.target, norm)
    if gemv is None and is_centered(norm):
        return None
    if row is not None:
        first = replace(gemms[0], stored=stored)
        if gemv is None or not takes_row(row, first, norm, part.target, 10):
            return None
        gains = (row.gain, norm.gain if norm else None)
        if not all(part.is_constant(gain) for gain in gains if gain is not None):
            return None  # the kernel binds them as uniforms
        norm = with_row(norm, row, x)
    columns = gemv.columns if gemv else skinny.columns
    shapes, begin, place = list[int](), 0, 0
    for gemm, weight in zip(gemms, weights, strict=True):
        shapes += [gemm.n, begin, weight.scale_stride, place]
        begin += ceil_div(gemm.n, columns)
        place += gemm.m * gemm.n
    params = weights[0].params + pack("12I", *shapes) + pack_prologue(norm)
    qkv = replace(gemms[0], n=begin * columns, stored=stored)
    if gemv is not None:
        kernel = gemv_kernel("gemv_q4_qkv", x, weights, norm, gemv.types(weights[0], 1))
        dispatch = gemv_dispatch(replace(kernel, params=params), qkv, (out,), gemv)
    else:
        kernel = multi_kernel("linear_q4_skinny_qkv", x, weights, norm)
        kernel = replace(kernel, types=(*kernel.types, twice_type(skinny)))
        (dispatch,) = skinny_dispatches(replace(kernel, params=params), qkv, -1, skinny)
    types = tuple(("OUT", "f32") if name == "OUT" else (name, t) for name, t in dispatch.types)
    return [replace(dispatch, bindings=(*kernel.operands, out), types=types)]


register_fusion(GEMM_ADD, lower_gemm_add)
register_fusion(NORMED_GEMM, lower_normed_gemm)
register_fusion(GATED_GEMM, lower_gated_gemm)
