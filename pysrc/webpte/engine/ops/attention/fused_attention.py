"""From x to attention in three dispatches: rms_norm, q/k/v, rotary embedding, cache, attention.

    attention_block   queries, keys and values are GEMMs of the same x, which may be normalized
                      first; queries and keys get a rotary embedding; then `sdpa_with_kv_cache`

For few tokens one kernel computes all three GEMMs, and attention rotates queries and keys as it
reads them. Otherwise all calls run one after the other, but the three GEMMs at once where a kernel
takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from webpte.engine.ops.attention.attention import stored_as
from webpte.engine.ops.attention.attention_calls import read_cached
from webpte.engine.ops.attention.attention_kernels import (
    Attention,
    lower_split,
    scratch,
    without,
    writes_cache,
)
from webpte.engine.ops.attention.rope import angles_of, operands, start_of
from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.fused_call import (
    FusedStep,
    Part,
    gathered,
    grouped,
    parts_of,
    register_fusion,
    single_steps,
)
from webpte.engine.ops.core.records import Dispatch, Scratch
from webpte.engine.ops.gemm.computed_row import lower_with_row
from webpte.engine.ops.gemm.fused_linear_epilogue import ADD, is_bias
from webpte.engine.ops.gemm.fused_linear_q4 import (
    ALL_LINEARS,
    LINEAR_OF,
    linears_of,
    lower_qkv,
    prologue_of,
)
from webpte.engine.ops.gemm.fused_matmul import qkv_dispatches
from webpte.engine.ops.gemm.gemv_multi import lower_gemv_multi
from webpte.engine.ops.gemm.joined_linears import joined_linears
from webpte.engine.ops.gemm.linear_int8 import rounded_once
from webpte.engine.ops.gemm.matmul import LINEAR
from webpte.engine.ops.gemm.subgroup_matrix.linear_q4 import matrix_qkv
from webpte.engine.ops.norm.fused_norm import NormedSum

ATTENTION_BLOCK = "webpte.attention_block"
SDPA = "sdpa_with_kv_cache.default"
# By operator name: whether a pair's elements are half of the rotated elements apart.
ROPES = {"et_vk.apply_rotary_emb.default": False, "et_vk.apply_rotary_emb_hf.default": True}
# wgsl/gemm/linear_q4_skinny_qkv.wgsl binds the most buffers.
STORAGE_BUFFERS = 9


def lower_attention_block(args: Args) -> list[Dispatch]:
    parts = list(parts_of(args))
    return rounded_once(lower_with_row(args, parts, fused_dispatches, attention_steps))


def attention_steps(args: Args, parts: list[Part]) -> list[FusedStep]:
    """Return the steps from x to attention, as few as the kernels allow."""
    found = fused_dispatches(args, parts)
    if found is not None:
        return [FusedStep(tuple(parts), lambda _: found)]
    if parts_are_dense(parts):
        return grouped(parts, {LINEAR}, qkv_dispatches)
    return qkv_steps(parts) or single_steps(parts)


def fused_dispatches(
    args: Args, parts: list[Part], row: NormedSum | None = None
) -> list[Dispatch] | None:
    """Return the fused kernels, or None if they do not take the sizes."""
    _, attention = parts[-1]
    if args.target.software or args.target.storage_buffers < STORAGE_BUFFERS:
        return None
    names = ("query", "k_cache", "v_cache", "key", "value")
    call = stored_as(attention, read_cached(attention, writes=True), *names)
    rope = next(part for part in parts if part[0].name in ROPES)
    if attention.out.numel == 0 or not writes_cache(call) or not rotates_quads(rope):
        return None
    linears = [part for op, part in parts if op.name in ALL_LINEARS]
    sizes = [part.out.numel for part in linears]
    qkv = scratch("attention_qkv", sum(sizes) * 4)
    if parts_are_dense(parts):
        gemms = lower_gemv_multi(linears, prologue_of(parts), qkv, "f32")
    else:
        gemms = lower_qkv(linears_of(parts), prologue_of(parts), qkv, row=row)
    if gemms is None:
        return None
    places = sizes[0], sizes[0] + sizes[1]
    call = replace(call, width=linears[0].tensor("x").dims[-1])
    return gemms + rotary_attention(call, rope, qkv, places)


def parts_are_dense(parts: Sequence[Part]) -> bool:
    """Return whether q, k and v are linear layers of floats."""
    return any(op.name == LINEAR for op, _ in parts)


def qkv_steps(parts: Sequence[Part]) -> list[FusedStep] | None:
    """Return a step for q, k, v and the sums with their biases; None if no kernel takes them."""
    linears = linears_of(list(parts))
    biases: list[TensorArg | None] = [None] * len(linears)
    outs, places = [part.out for _, part in linears], list[int]()
    for place, (op, part) in enumerate(parts):
        if op.name in LINEAR_OF:
            places.append(place)
        if op.name != ADD:
            continue
        both = part.tensor("self"), part.tensor("other")
        for i, (_, linear) in enumerate(linears):
            added = next((t for t in both if t.id != linear.out.id), None)
            summed = linear.out.id in {t.id for t in both}
            if summed and added is not None and is_bias(added, linear, part):
                biases[i], outs[i] = added, part.out
                places.append(place)
    joined = joined_linears(linears, biases, outs)
    if joined is None:
        return None
    return gathered(parts, places, lambda _: matrix_qkv(joined, [out.id for out in outs]))


def rotates_quads(rope: Part) -> bool:
    """Return whether pairs of elements are pairs of quads, or within one quad."""
    op, args = rope
    pairs, _, _ = angles_of(args, ROPES[op.name])
    return pairs % (4 if ROPES[op.name] else 2) == 0


def rotary_attention(
    call: Attention, rope: Part, qkv: Scratch, places: tuple[int, int]
) -> list[Dispatch]:
    """Return attention that rotates queries and new keys as it reads them from `qkv`."""
    op, args = rope
    half = ROPES[op.name]
    _, _, cosines, sines = operands(args)
    rotary = (*angles_of(args, half), *places)
    call = replace(call, rotary=rotary, target=args.target)
    first, *rest = lower_split(
        call, call.new, "attention_flash_split_rope", (qkv, cosines.id, sines.id)
    )
    # Packed caches only need the sizes of rows.
    known = first.overrides if call.packing is None else without(first.overrides, ("HEAD",))
    rotating = replace(
        first,
        bindings=(*first.bindings, start_of(args, half)),
        overrides=(*known, ("ROTATE_HALF", int(half))),
    )
    return [rotating, *rest]


register_fusion(ATTENTION_BLOCK, lower_attention_block)
