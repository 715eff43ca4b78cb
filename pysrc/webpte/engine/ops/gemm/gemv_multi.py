"""Skinny GEMMs of the same x with up to three float matrices, including the norm before them.

The counterpart of wgsl/gemm/gemv_multi.wgsl; fused_linear_q4.py does this for quantized weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import float_type
from webpte.engine.ops.core.records import Binding, Dispatch, ceil_div, pack
from webpte.engine.ops.gemm.lib.gemm import (
    Gemm,
    GemmKernel,
    choose_skinny_config,
    is_skinny,
    skinny_dispatches,
)
from webpte.engine.ops.gemm.lib.prologue import (
    NORMED_THREADS,
    Prologue,
    gain_of,
    is_centered,
    pack_prologue,
    prologue_overrides,
    prologue_types,
)
from webpte.engine.ops.gemm.matmul import linear_operands

MOST = 3  # matrices at once


def lower_gemv_multi(
    linears: Sequence[Args],
    norm: Prologue | None,
    out: Binding,
    stored: str | None = None,
    gate: str | None = None,
    biases_follow: bool = False,
) -> list[Dispatch] | None:
    """Return the dispatch: outputs one after the other, or gated; None if no kernel takes them.

    stored         element type of the output; None: the operands' type
    gate           formula of the gate, if the first matrix gates the second
    biases_follow  whether the reader of the output adds the biases
    """
    operands = [linear_operands(args) for args in linears]
    gemms = [each.gemm.plain if biases_follow else each.gemm for each in operands]
    first, args = gemms[0], linears[0]
    alike = all((p.m, p.k) == (first.m, first.k) and p.addend is None for p in gemms)
    along = norm is None or (norm.x.dims[-1] == first.k and norm.x.numel == first.m * first.k)
    same = len({each.a.id for each in operands}) == 1 and len(linears) <= MOST
    small = not first.empty and is_skinny(first) and first.k > 0 and first.k % 4 == 0
    if args.target.software or is_centered(norm) or not (alike and along and same and small):
        return None
    if gate is not None and first.n != gemms[1].n:
        return None
    x = norm.x if norm else operands[0].a
    read = float_type(args, x, norm.gain if norm else None, *(each.b for each in operands))
    config = choose_skinny_config(ceil_div(first.k, 4), NORMED_THREADS, NORMED_THREADS)
    shapes, begin, place = list[int](), 0, 0
    for gemm in gemms:
        shapes += [gemm.n, begin, 0, place]
        begin += ceil_div(gemm.n, 4 * config.lanes)
        place += gemm.m * gemm.n
    # A missing matrix begins after the last workgroup.
    shapes += [0, begin, 0, 0] * (MOST - len(gemms))
    workgroups = ceil_div(first.n, 4 * config.lanes) if gate is not None else begin
    kernel = GemmKernel(
        name="gemv_multi",
        operands=(x.id, gain_of(norm), *matrices_of([o.b.id for o in operands])),
        types=(*prologue_types(norm), ("GATE", gate or "x")),
        overrides=(*prologue_overrides(norm), ("GATED", gate is not None)),
        params=pack("12I", *shapes) + pack_prologue(norm),
    )
    qkv = replace(Gemm(first.m, 0, first.k), n=workgroups * 4 * config.lanes, stored=read)
    (dispatch,) = skinny_dispatches(kernel, qkv, -1, config)
    types = tuple(("OUT", stored or read) if n == "OUT" else (n, t) for n, t in dispatch.types)
    return [replace(dispatch, bindings=(*kernel.operands, out), types=types)]


def matrices_of(ids: list[int]) -> tuple[int | None, ...]:
    """Fill up the bindings of the matrices with None."""
    return (*ids, *[None] * (MOST - len(ids)))
