"""Products of plain matrices with what is around them, for sizes that wgsl/lib/gemm/gemm_small.wgsl
is for.

product_ending   product, then one element-wise op of its result: gelu, relu, a clamp, ...
joined_products  three linear layers of one x: q, k and v
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from webpte.ops.core.args import Args
from webpte.ops.core.fused_call import Part, lower_parts, parts_of, register_fusion
from webpte.ops.core.records import Dispatch, fold_grid, pack
from webpte.ops.elementwise import unary
from webpte.ops.gemm.gemm_small import Epilogue, choose_shape
from webpte.ops.gemm.matmul import MATMUL, ended_product, spread_of

PRODUCT_ENDING = "webpte.product_ending"
JOINED_PRODUCTS = "webpte.joined_products"

MATMUL_OF = {op.name: op for op in MATMUL}
LINEAR = "aten.linear.default"
ACTIVATIONS = frozenset({*unary.FLOAT_UNARY, unary.GELU_NAME})
JOINED = 3
STORAGE_BUFFERS = 10  # of wgsl/gemm/gemm_small_qkv.wgsl


def lower_product_ending(args: Args) -> list[Dispatch]:
    parts, (out,) = list(parts_of(args)), args.outs
    (op, product), (last, activation) = parts[0], parts[-1]
    found = unary.float_formula(last.name, activation)
    assert found is not None, "see ACTIVATIONS"
    formula, scalars = found
    ending = Epilogue(formula=formula, scalars=scalars)
    if out.dtype != product.out.dtype:
        return lower_parts(args)
    return ended_product(MATMUL_OF[op.name], product, ending, out) or lower_parts(args)


def lower_joined_products(args: Args) -> list[Dispatch]:
    found = joined_dispatches(list(parts_of(args)))
    return lower_parts(args) if found is None else found


def joined_dispatches(parts: Sequence[Part]) -> list[Dispatch] | None:
    """All three at once, if there are many rows."""
    linears = [part for _, part in parts]
    args = linears[0]
    spreads = [spread_of(MATMUL_OF[LINEAR], part, Epilogue()) for part in linears]
    found = [spread for spread in spreads if spread is not None]
    products = [spread.product for spread in found]
    alike = len({(p.m, p.k, p.stored) for p in products}) == 1
    few = args.target.storage_buffers < STORAGE_BUFFERS
    single = any(p.addend is not None and p.addend_strides != (0, 1) for p in products)
    one = len({part.tensor("x").id for part in linears}) == 1
    if few or single or len(found) < JOINED or len(linears) > JOINED or not alike or not one:
        return None
    first = products[0]
    whole = replace(first.plain, n=sum(product.n for product in products))
    shape = choose_shape(whole, True, args.target, "gemm_small_qkv")
    matrices, begin = list[int](), 0
    for product in products:
        matrices += [product.n, begin, int(product.addend is not None), 0]
        begin += shape.parts(first.m, product.n)[1]
    m_parts, _ = shape.parts(first.m, first.n)
    return [
        Dispatch(
            kernel="gemm_small_qkv",
            bindings=(
                found[0].a,
                *(spread.b for spread in found),
                *(product.addend_id for product in products),
                *(part.out.id for part in linears),
            ),
            params=first.params(m_parts, begin, k_part=first.k) + pack("12I", *matrices),
            grid=fold_grid(m_parts * begin),
            types=(*shape.types(m_parts * begin), *first.types(first.stored)),
            overrides=(("B_K_FIRST", True),),
        )
    ]


register_fusion(PRODUCT_ENDING, lower_product_ending)
register_fusion(JOINED_PRODUCTS, lower_joined_products)
