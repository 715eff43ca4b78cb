"""Products with what is around them: a norm before, an addition, a gate or two others beside.

    product_add     product + residual, of any size: the addend of the product
    normed_product  rms_norm, then one product of few rows
    gated_product   silu(x @ gate) * (x @ up), with or without the norm before, of few rows

The products are those of `linear_q4` and, for additions, of `matmul`. Where a kernel does not take
the sizes, all run one after the other.
"""

from __future__ import annotations

from dataclasses import replace

from webpte.ops.args import Args, TensorArg
from webpte.ops.elementwise import float_type
from webpte.ops.fused import Between, Part, lower_parts, parts_of, register_fusion
from webpte.ops.linear_q4 import (
    LINEARS,
    NORMED_THREADS,
    Linear,
    Norm,
    lower_linear,
    product_of,
    row_overrides,
    weights_of,
)
from webpte.ops.matmul import MATMUL, lower_matmul
from webpte.ops.packed_weights import Quantized
from webpte.ops.products import (
    Kernel,
    Product,
    Slicing,
    choose_slicing,
    is_sliced,
    slice_dispatches,
)
from webpte.ops.records import Binding, Dispatch, ceil_div, pack
from webpte.ops.target import Target

PRODUCT_ADD = "webpte.product_add"
NORMED_PRODUCT = "webpte.normed_product"
GATED_PRODUCT = "webpte.gated_product"

LINEAR_OF = {op.name: op for op in LINEARS}
# Those whose x is what it is: rounding it to int8 takes a look at all of it before.
PLAIN_LINEARS = frozenset(op.name for op in LINEARS if not op.quantized)
MATMUL_OF = {op.name: op for op in MATMUL}
RMS_NORM = "et_vk.rms_norm.default"


def lower_product_add(args: Args) -> list[Dispatch]:
    parts, between = list(parts_of(args)), Between(args)
    (op, product), (_, addition), (out,) = parts[0], parts[-1], args.outs
    operands = addition.tensor("self"), addition.tensor("other")
    added = next(t for t in operands if between.root(t.id) != product.out.id)
    # A sum that is larger than both was broadcast.
    if added.dtype != out.dtype or added.numel != out.numel:
        return lower_parts(args)
    if op.name in LINEAR_OF:
        linear = LINEAR_OF[op.name]
        if product_of(linear, product).can_add(added):
            return lower_linear(linear, product, added, out=out)
    else:
        matmul = MATMUL_OF[op.name]
        if matmul.operands(product).product.can_add(added):
            return lower_matmul(matmul, product, added, out=out)
    return lower_parts(args)


# Products of few rows


def norm_of(parts: list[Part]) -> Norm | None:
    """The norm that comes first, if one does."""
    op, first = parts[0]
    if op.name != RMS_NORM:
        return None
    return Norm(first.tensor("input"), first.tensor("weight"), first.number("eps"))


def linears_of(parts: list[Part]) -> list[tuple[Linear, Args]]:
    return [(LINEAR_OF[op.name], part) for op, part in parts if op.name in LINEAR_OF]


def is_small(product: Product, norm: Norm | None, x: TensorArg) -> bool:
    """Whether a kernel for few rows takes it, and the norm is over the product's k."""
    along = norm is None or norm.x.dims[-1] == product.k
    return product.m > 0 and is_sliced(product) and along and x.dims[-1] == product.k


def lower_normed_product(args: Args) -> list[Dispatch]:
    parts = list(parts_of(args))
    norm, (out,) = norm_of(parts), args.outs
    ((op, product),) = linears_of(parts)
    fits = is_small(product_of(op, product), norm, product.tensor("x"))
    if args.target.software or not fits:
        return lower_parts(args)
    return lower_linear(op, product, norm=norm, out=out)


def are_alike(weights: list[Quantized]) -> bool:
    """Whether one kernel takes these weights at once: alike in all but their rows."""
    packings = {(w.format, w.inner, w.row_bytes, w.group) for w in weights}
    whole = all(w.wide and w.rows % 4 == 0 and w.scale_stride % 4 == 0 for w in weights)
    return len(packings) == 1 and whole and weights[0].inner % 4 == 0


def several_slicing(weights: Quantized, target: Target) -> Slicing:
    if target.subgroup:
        return Slicing(1, target.subgroup, one_subgroup=True)
    return choose_slicing(weights.steps, NORMED_THREADS, NORMED_THREADS)


def several_kernel(
    name: str, x: TensorArg, weights: list[Quantized], norm: Norm | None, slicing: Slicing
) -> Kernel:
    """A kernel that reads x once for several weights."""
    pairs = [id for w in weights for id in (w.tensor.id, w.scales.id)]
    return Kernel(
        name=name,
        operands=(norm.x.id if norm else x.id, norm.gain.id if norm else None, *pairs),
        types=slicing.folding,
        overrides=(("FORMAT", weights[0].format), *row_overrides(norm, slicing)),
    )


def lower_gated_product(args: Args) -> list[Dispatch]:
    parts = list(parts_of(args))
    norm, (out,), linears = norm_of(parts), args.outs, linears_of(parts)
    (gate, first), (up, second) = linears
    product, x = product_of(gate, first), first.tensor("x")
    weights = [weights_of(op, part) for op, part in linears]
    same = product == product_of(up, second) and product.addend is None
    strides = weights[0].scale_stride == weights[1].scale_stride
    fits = same and strides and are_alike(weights) and is_small(product, norm, x)
    if args.target.software or not fits:
        return lower_parts(args)
    gain = norm.gain if norm else None
    stored = float_type(args, x, *(w.scales for w in weights), gain, out)
    slicing = several_slicing(weights[0], args.target)
    kernel = several_kernel("linear_q4_gated", x, weights, norm, slicing)
    kernel = replace(kernel, params=weights[0].params + pack("f", norm.eps if norm else 0))
    dispatches = slice_dispatches(kernel, replace(product, stored=stored), out.id, slicing)
    # There is no addend.
    return [replace(d, bindings=(*d.bindings[:-2], d.bindings[-1])) for d in dispatches]


def lower_joined(
    linears: list[tuple[Linear, Args]], norm: Norm | None, out: Binding
) -> list[Dispatch] | None:
    """Three products of one x, one after the other in one place, as f32; None if no kernel can."""
    products = [product_of(op, part) for op, part in linears]
    weights = [weights_of(op, part) for op, part in linears]
    part, x = linears[0][1], linears[0][1].tensor("x")
    plain = all(product.addend is None for product in products)
    if not plain or not are_alike(weights) or not is_small(products[0], norm, x):
        return None
    stored = float_type(part, x, *(w.scales for w in weights), norm.gain if norm else None)
    slicing = several_slicing(weights[0], part.target)
    shapes, begin, place = list[int](), 0, 0
    for product, weight in zip(products, weights, strict=True):
        shapes += [product.n, begin, weight.scale_stride, place]
        begin += ceil_div(product.n, 4 * slicing.lanes)
        place += product.m * product.n
    kernel = several_kernel("linear_q4_joined", x, weights, norm, slicing)
    eps = norm.eps if norm else 0
    params = weights[0].params + pack("12If", *shapes, eps)
    joined = replace(products[0], n=begin * 4 * slicing.lanes, stored=stored)
    (dispatch,) = slice_dispatches(replace(kernel, params=params), joined, -1, slicing)
    types = tuple(("OUT", "f32") if name == "OUT" else (name, t) for name, t in dispatch.types)
    return [replace(dispatch, bindings=(*kernel.operands, out), types=types)]


register_fusion(PRODUCT_ADD, lower_product_add)
register_fusion(NORMED_PRODUCT, lower_normed_product)
register_fusion(GATED_PRODUCT, lower_gated_product)
