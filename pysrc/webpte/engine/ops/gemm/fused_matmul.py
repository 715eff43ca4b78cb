"""GEMMs of plain matrices fused with their neighbours, for skinny and small sizes.

gemm_epilogue  a GEMM, then an element-wise op: gelu, relu, a clamp, ...
gemm_qkv       three linear layers of the same x: q, k and v
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.fused_call import Part, lower_parts, parts_of, register_fusion
from webpte.engine.ops.core.records import Dispatch, fold_grid, pack
from webpte.engine.ops.elementwise import unary
from webpte.engine.ops.gemm.gemm_small import choose_small_tile
from webpte.engine.ops.gemm.lib.epilogue import Epilogue
from webpte.engine.ops.gemm.matmul import LINEAR, MATMUL_OF, gemm_with_epilogue, small_gemm_of

GEMM_EPILOGUE = "webpte.gemm_epilogue"
GEMM_QKV = "webpte.gemm_qkv"

QKV = 3
STORAGE_BUFFERS = 10  # buffers in wgsl/gemm/gemm_small_qkv.wgsl


def lower_gemm_epilogue(args: Args) -> list[Dispatch]:
    """Lower a GEMM and the activation after it."""
    parts, (out,) = list(parts_of(args)), args.outs
    (op, first), (last, activation) = parts[0], parts[-1]
    found = unary.float_formula(last.name, activation)
    assert found is not None, "see unary.ACTIVATIONS"
    formula, scalars = found
    epilogue = Epilogue(formula=formula, scalars=scalars)
    if out.dtype != first.out.dtype:
        return lower_parts(args)
    return gemm_with_epilogue(MATMUL_OF[op.name], first, epilogue, out) or lower_parts(args)


def lower_gemm_qkv(args: Args) -> list[Dispatch]:
    """Lower three linear layers of the same x."""
    found = qkv_dispatches(list(parts_of(args)))
    return lower_parts(args) if found is None else found


def qkv_dispatches(parts: Sequence[Part]) -> list[Dispatch] | None:
    """Return a dispatch for all three layers if there are many rows, else None."""
    linears = [part for _, part in parts]
    args = linears[0]
    candidates = [small_gemm_of(MATMUL_OF[LINEAR], part, Epilogue()) for part in linears]
    found = [small for small in candidates if small is not None]
    gemms = [small.gemm for small in found]
    alike = len({(g.m, g.k, g.stored) for g in gemms}) == 1
    few = args.target.storage_buffers < STORAGE_BUFFERS
    single = any(g.addend is not None and g.addend_strides != (0, 1) for g in gemms)
    one = len({part.tensor("x").id for part in linears}) == 1
    if few or single or len(found) < QKV or len(linears) > QKV or not alike or not one:
        return None
    first = gemms[0]
    whole = replace(first.plain, n=sum(gemm.n for gemm in gemms))
    tile = choose_small_tile(whole, True, args.target, "gemm_small_qkv")
    matrices, begin = list[int](), 0
    for gemm in gemms:
        matrices += [gemm.n, begin, int(gemm.addend is not None), 0]
        begin += tile.parts(first.m, gemm.n)[1]
    m_parts, _ = tile.parts(first.m, first.n)
    return [
        Dispatch(
            kernel="gemm_small_qkv",
            bindings=(
                found[0].a,
                *(small.b for small in found),
                *(gemm.addend_id for gemm in gemms),
                *(part.out.id for part in linears),
            ),
            params=first.params(m_parts, begin, k_part=first.k) + pack("12I", *matrices),
            grid=fold_grid(m_parts * begin),
            types=(*tile.types(m_parts * begin, args.target), *first.types(first.stored)),
            overrides=(("B_K_FIRST", True),),
        )
    ]


register_fusion(GEMM_EPILOGUE, lower_gemm_epilogue)
register_fusion(GEMM_QKV, lower_gemm_qkv)
