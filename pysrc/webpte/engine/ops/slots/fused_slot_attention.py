"""From x to attention in a few dispatches, for rows that belong to several sequences.

    slot_attention_block   as `attention_block`, with `webpte.slot_sdpa` at its end

One kernel computes queries, keys and values, or three kernels with subgroup matrices; another
rotates them and writes keys and values to their slots, and attention follows. Otherwise all calls
run one after the other, but the three GEMMs at once where a kernel takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from webpte.engine.ops.attention.attention import stored_as
from webpte.engine.ops.attention.attention_kernels import Attention, lower_split, scratch
from webpte.engine.ops.attention.fused_attention import ROPES, parts_are_dense, qkv_steps
from webpte.engine.ops.attention.rope import angles_of, operands, shape_of
from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.fused_call import Part, grouped, lower_parts, parts_of, register_fusion
from webpte.engine.ops.core.quads import quad_grid
from webpte.engine.ops.core.records import Dispatch, Scratch, pack
from webpte.engine.ops.gemm.fused_linear_q4 import (
    ALL_LINEARS,
    linears_of,
    lower_after_norm,
    lower_qkv,
    prologue_of,
)
from webpte.engine.ops.gemm.fused_matmul import qkv_dispatches
from webpte.engine.ops.gemm.gemv_multi import lower_gemv_multi
from webpte.engine.ops.gemm.joined_linears import joined_linears
from webpte.engine.ops.gemm.lib.prologue import Prologue
from webpte.engine.ops.gemm.linear_q4 import LinearQ4
from webpte.engine.ops.gemm.matmul import LINEAR
from webpte.engine.ops.gemm.subgroup_matrix.linear_q4 import matrix_qkv
from webpte.engine.ops.norm.fused_norm import RMS_NORM
from webpte.engine.ops.slots.slot_attention import fits_split, read_slots

SLOT_ATTENTION_BLOCK = "webpte.slot_attention_block"
STORAGE_BUFFERS = 9  # buffers in wgsl/gemm/linear_q4_skinny_qkv.wgsl, the most of all


def lower_slot_block(args: Args) -> list[Dispatch]:
    parts = list(parts_of(args))
    found = fused_dispatches(args, parts)
    if found is not None:
        return found
    if parts[0][0].name == RMS_NORM:
        found = fused_dispatches(args, parts[1:])
        if found is not None:
            return lower_after_norm(args, parts, lambda _: found)
    dense = parts_are_dense(parts)
    return lower_parts(
        args, grouped(parts, {LINEAR}, qkv_dispatches) if dense else qkv_steps(parts)
    )


def fused_dispatches(args: Args, parts: Sequence[Part]) -> list[Dispatch] | None:
    """Return the fused kernels, or None if they do not take the sizes."""
    attention = parts[-1][1]
    if args.target.software or args.target.storage_buffers < STORAGE_BUFFERS:
        return None
    names = ("query", "k_cache", "v_cache", "key", "value")
    call = stored_as(attention, read_slots(attention), *names)
    call = replace(call, target=args.target)
    plain = call.stored == "f32" and call.packing is None and fits_split(call)
    if attention.out.numel == 0 or not plain:
        return None
    linears = [part for op, part in parts if op.name in ALL_LINEARS]
    sizes = [part.out.numel for part in linears]
    qkv = scratch("attention_qkv", sum(sizes) * 4)
    if parts_are_dense(parts):
        gemms = lower_gemv_multi(linears, prologue_of(parts), qkv, "f32")
    else:
        gemms = quantized_dispatches(linears_of(list(parts)), prologue_of(parts), qkv)
    if gemms is None:
        return None
    rope = next(part for part in parts if part[0].name in ROPES)
    queries = scratch("slot_queries", sizes[0] * 4)
    begins = sizes[0], sizes[0] + sizes[1]
    turned = rotate_into_slots(call, rope, qkv, begins, queries)
    return [*gemms, turned, *lower_split(call, None, "slot_attention", (queries,))]


def quantized_dispatches(
    linears: list[tuple[LinearQ4, Args]], norm: Prologue | None, qkv: Scratch
) -> list[Dispatch] | None:
    """Return q, k and v by the skinny kernel or by subgroup matrices; neither takes a norm."""
    found = lower_qkv(linears, norm, qkv)
    if found is not None or norm is not None:
        return found
    joined = joined_linears(linears, [None] * len(linears), [part.out for _, part in linears])
    return None if joined is None else matrix_qkv(joined, (qkv,))


def rotate_into_slots(
    call: Attention, rope: Part, qkv: Scratch, begins: tuple[int, int], queries: Scratch
) -> Dispatch:
    """Return the rotary embedding, which also writes keys and values to their slots."""
    op, args = rope
    half = ROPES[op.name]
    q, k, cosines, sines = operands(args)
    shapes = [*shape_of(q), *shape_of(k)]
    positions = call.k.sizes[2]
    return Dispatch(
        kernel="slot_rope",
        bindings=(
            *(qkv, cosines.id, sines.id, call.position, queries),
            *(call.k.id, call.v.id),
        ),
        params=pack(
            "14I2i",
            *(*shapes, q.dims[1], *angles_of(args, half)),
            *(*begins, call.k.sizes[0], positions),
        ),
        grid=quad_grid(shapes[3] + 2 * shapes[7]),
        overrides=(("ROTATE_HALF", int(half)),),
    )


register_fusion(SLOT_ATTENTION_BLOCK, lower_slot_block)
