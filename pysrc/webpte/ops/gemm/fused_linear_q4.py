"""Products with what is around them: a norm before, an addition, a gate or two others beside.

    product_add     product + residual, of any size: the addend of the product
    normed_product  rms_norm, then one product of few rows
    gated_product   silu(x @ gate) * (x @ up), with or without the norm before, of few rows

The products are those of `linear_q4` and, for additions, of `matmul`. Where a kernel does not take
the sizes, all run one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from webpte.ops.core.args import Args, TensorArg
from webpte.ops.core.fused_call import (
    FusedStep,
    Part,
    grouped,
    lower_parts,
    parts_of,
    register_fusion,
    single_steps,
)
from webpte.ops.core.quads import float_type
from webpte.ops.core.records import Binding, Dispatch, ceil_div, pack
from webpte.ops.core.target import Target
from webpte.ops.elementwise.fused_elementwise import NAMES, chain_dispatches
from webpte.ops.gemm.gemm import (
    Gemm,
    GemmKernel,
    SkinnyConfig,
    Types,
    choose_skinny_config,
    is_skinny,
    skinny_dispatches,
)
from webpte.ops.gemm.gemm_small import adding
from webpte.ops.gemm.gemv_multi import LINEAR, lower_several
from webpte.ops.gemm.gemv_q4 import choose_cut, is_one_row, row_dispatch
from webpte.ops.gemm.linear_q4 import (
    LINEARS,
    LinearQ4,
    lower_linear,
    normed_kernel,
    product_of,
    weights_of,
)
from webpte.ops.gemm.matmul import MATMUL, ended_product, lower_matmul
from webpte.ops.gemm.packed_weights import Quantized
from webpte.ops.gemm.prologue import (
    NORMED_THREADS,
    Prologue,
    eps_of,
    gain_of,
    rounds,
    row_overrides,
    row_types,
)
from webpte.ops.quant.choose_qparams import CHOOSE, MAPPINGS

PRODUCT_ADD = "webpte.product_add"
NORMED_PRODUCT = "webpte.normed_product"
GATED_PRODUCT = "webpte.gated_product"

LINEAR_OF = {op.name: op for op in LINEARS}
# Those whose x is rounded to int8, for which scales and zeros are chosen before, and the others.
ROUNDED_LINEARS = frozenset(op.name for op in LINEARS if op.quantized)
ALL_LINEARS = frozenset({LINEAR, *LINEAR_OF})
CHOOSE_OF = {op.name: op for op in CHOOSE}
PLAIN_LINEARS = frozenset({LINEAR, *(op.name for op in LINEARS if not op.quantized)})
MATMUL_OF = {op.name: op for op in MATMUL}
RMS_NORM = "et_vk.rms_norm.default"


def lower_product_add(args: Args) -> list[Dispatch]:
    parts = list(parts_of(args))
    before, rest = parts[: -len(sum_of(parts))], sum_of(parts)
    if not before:
        return sum_dispatches(rest) or lower_parts(args)
    intake, (op, product) = intake_of(before), rest[0]
    small = is_small(product_of(LINEAR_OF[op.name], product), intake, product.tensor("x"))
    if intake is not None and small and not args.target.software:
        found = sum_dispatches(rest, intake)
        if found is not None:
            return found
    return lower_parts(args, [*single_steps(before), FusedStep(tuple(rest), sum_dispatches)])


def sum_of(parts: list[Part]) -> list[Part]:
    """The product, the views after it and the sum."""
    index = next(i for i, (op, _) in enumerate(parts) if op.name in {*LINEAR_OF, *MATMUL_OF})
    return parts[index:]


def sum_dispatches(parts: Sequence[Part], intake: Prologue | None = None) -> list[Dispatch] | None:
    """A product whose addend is what is added to it, if the kernels take that."""
    (op, product), (_, addition), views = parts[0], parts[-1], parts[1:-1]
    own, out = {product.out.id, *(view.out.id for _, view in views)}, addition.out
    added = next(t for t in (addition.tensor("self"), addition.tensor("other")) if t.id not in own)
    # A sum that is larger than either was broadcast; one of two types is not the product's own.
    sizes, types = {t.numel for t in (product.out, added, out)}, {t.dtype for t in (added, out)}
    if len(sizes) > 1 or types != {product.out.dtype}:
        return None
    if op.name in LINEAR_OF:
        linear = LINEAR_OF[op.name]
        if product_of(linear, product).can_add(added):
            return lower_linear(linear, product, added, intake, out)
        return None
    matmul = MATMUL_OF[op.name]
    if (found := ended_product(matmul, product, adding(added), out)) is not None:
        return found
    if matmul.operands(product).product.can_add(added):
        return lower_matmul(matmul, product, added, out=out)
    return None


# Products of few rows


def intake_of(parts: Sequence[Part]) -> Prologue | None:
    """The norm that comes first, if one does, and the rounding after it.

    None if there is neither; and where the rounding is none that kernels know, a contradiction: no
    product is along it, so that none is small.
    """
    op, first = parts[0]
    intake = None
    if op.name == RMS_NORM:
        x, gain = first.tensor("input"), first.tensor("weight")
        intake = Prologue(x, gain, first.number("eps"))
    chosen = next((part for op, part in parts if op.name in CHOOSE_OF), None)
    if chosen is None:
        return intake
    choice = CHOOSE_OF[chosen.call.name].rule(chosen)
    x = chosen.tensor("x")
    rows = choice.block == (*(1 for _ in x.dims[:-1]), x.dims[-1])
    known = (choice.mapping, choice.low, choice.high) == (MAPPINGS["ASYMMETRIC"], -128, 127)
    if not rows or not known:
        return Prologue(replace(x, dims=(*x.dims[:-1], 0)))
    return replace(intake or Prologue(x), least=choice.epsilon)


def lower_dense_rows(
    args: Args, parts: list[Part], norm: Prologue | None, gated: bool = False
) -> list[Dispatch] | None:
    """One or two products of floats; None if there are others, or no kernel takes them."""
    linears, (out,) = [part for op, part in parts if op.name == LINEAR], args.outs
    if not linears or out.dtype != linears[0].out.dtype:
        return None
    return lower_several(linears, norm, out.id, out.dtype.wgsl, gated)


def linears_of(parts: list[Part]) -> list[tuple[LinearQ4, Args]]:
    return [(LINEAR_OF[op.name], part) for op, part in parts if op.name in LINEAR_OF]


def is_small(product: Gemm, norm: Prologue | None, x: TensorArg) -> bool:
    """Whether a kernel for few rows takes it, and the norm is over the product's k."""
    along = norm is None or norm.x.dims[-1] == product.k
    return product.m > 0 and is_skinny(product) and along and x.dims[-1] == product.k


def lower_normed_product(args: Args) -> list[Dispatch]:
    parts = list(parts_of(args))
    norm, (out,) = intake_of(parts), args.outs
    if any(op.name == LINEAR for op, _ in parts):
        return lower_dense_rows(args, parts, norm) or lower_parts(args)
    ((op, product),) = linears_of(parts)
    fits = is_small(product_of(op, product), norm, product.tensor("x"))
    if args.target.software or not fits:
        return lower_parts(args)
    return lower_linear(op, product, norm=norm, out=out)


def are_alike(weights: list[Quantized]) -> bool:
    """Whether one kernel takes these weights at once: alike in all but their rows."""
    packings = {(w.format, w.inner, w.row_bytes, w.group) for w in weights}
    whole = all(w.in_quads for w in weights) and weights[0].inner % 4 == 0
    return len(packings) == 1 and whole


def several_slicing(weights: Quantized, target: Target) -> SkinnyConfig:
    if target.subgroup:
        return SkinnyConfig(1, target.subgroup, one_subgroup=True)
    return choose_skinny_config(weights.steps, NORMED_THREADS, NORMED_THREADS)


def several_kernel(
    name: str, x: TensorArg, weights: list[Quantized], norm: Prologue | None, slicing: SkinnyConfig
) -> GemmKernel:
    """A kernel that reads x once for several weights."""
    types, overrides = row_types(norm, slicing), row_overrides(norm, slicing)
    return normed_kernel(name, x, weights, norm, types, overrides)


def row_kernel(
    name: str, x: TensorArg, weights: list[Quantized], norm: Prologue | None, types: Types
) -> GemmKernel:
    """Likewise, for one row."""
    return normed_kernel(name, x, weights, norm, types, (("NORMED", gain_of(norm) is not None),))


def lower_gated_product(args: Args) -> list[Dispatch]:
    parts = list(parts_of(args))
    found = None if broadcasts(parts) else gated_dispatches(args, parts)
    return found or lower_parts(args, grouped(parts, NAMES, chain_dispatches))


def broadcasts(parts: Sequence[Part]) -> bool:
    """Whether views make a column of a row, so that a gate has more elements than a product."""
    index = next(i for i, (op, _) in enumerate(parts) if op.name in ALL_LINEARS)
    return len({part.out.numel for _, part in parts[index:]}) > 1


def gated_dispatches(args: Args, parts: list[Part]) -> list[Dispatch] | None:
    """All at once; None if no kernel takes them."""
    norm, (out,), linears = intake_of(parts), args.outs, linears_of(parts)
    if not linears:
        return lower_dense_rows(args, parts, norm, gated=True)
    (gate, first), (up, second) = linears
    product, x = product_of(gate, first), first.tensor("x")
    weights = [weights_of(op, part) for op, part in linears]
    same = product == product_of(up, second) and product.addend is None
    strides = weights[0].scale_stride == weights[1].scale_stride
    fits = same and strides and are_alike(weights) and is_small(product, norm, x)
    if args.target.software or not fits:
        return None
    gain = norm.gain if norm else None
    stored = float_type(args, x, *(w.scales for w in weights), gain, out)
    product, params = replace(product, stored=stored), weights[0].params + eps_of(norm)
    if is_one_row(product, weights, args.target) and not rounds(norm):
        cut = choose_cut(weights[0], 2, args.target)
        kernel = row_kernel("gemv_q4_gated", x, weights, norm, cut.types(weights[0], 2))
        return [row_dispatch(replace(kernel, params=params), product, (out.id,), cut)]
    slicing = several_slicing(weights[0], args.target)
    kernel = several_kernel("linear_q4_skinny_gated", x, weights, norm, slicing)
    dispatches = skinny_dispatches(replace(kernel, params=params), product, out.id, slicing)
    # There is no addend.
    return [replace(d, bindings=(*d.bindings[:-2], d.bindings[-1])) for d in dispatches]


def lower_joined(
    linears: list[tuple[LinearQ4, Args]], norm: Prologue | None, out: Binding
) -> list[Dispatch] | None:
    """Three products of one x, one after the other in one place, as f32; None if no kernel can."""
    products = [product_of(op, part) for op, part in linears]
    weights = [weights_of(op, part) for op, part in linears]
    part, x = linears[0][1], linears[0][1].tensor("x")
    plain = all(product.addend is None for product in products)
    if not plain or not are_alike(weights) or not is_small(products[0], norm, x):
        return None
    stored = float_type(part, x, *(w.scales for w in weights), norm.gain if norm else None)
    slicing, cut = several_slicing(weights[0], part.target), None
    whole = all(is_one_row(product, weights, part.target) for product in products)
    if whole and not rounds(norm):
        cut = choose_cut(weights[0], 1, part.target)
    columns = cut.columns if cut else 4 * slicing.lanes
    shapes, begin, place = list[int](), 0, 0
    for product, weight in zip(products, weights, strict=True):
        shapes += [product.n, begin, weight.scale_stride, place]
        begin += ceil_div(product.n, columns)
        place += product.m * product.n
    params = weights[0].params + pack("12I", *shapes) + eps_of(norm)
    joined = replace(products[0], n=begin * columns, stored=stored)
    if cut is not None:
        kernel = row_kernel("gemv_q4_qkv", x, weights, norm, cut.types(weights[0], 1))
        dispatch = row_dispatch(replace(kernel, params=params), joined, (out,), cut)
    else:
        kernel = several_kernel("linear_q4_skinny_qkv", x, weights, norm, slicing)
        (dispatch,) = skinny_dispatches(replace(kernel, params=params), joined, -1, slicing)
    types = tuple(("OUT", "f32") if name == "OUT" else (name, t) for name, t in dispatch.types)
    return [replace(dispatch, bindings=(*kernel.operands, out), types=types)]


register_fusion(PRODUCT_ADD, lower_product_add)
register_fusion(NORMED_PRODUCT, lower_normed_product)
register_fusion(GATED_PRODUCT, lower_gated_product)
