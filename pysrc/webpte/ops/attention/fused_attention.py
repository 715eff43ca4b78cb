"""From x to attention in three dispatches: rms_norm, q/k/v, rope, the cache, attention.

    attention_block   queries, keys and values are products of one x, maybe normalized before; the
                      first two are turned; then `sdpa_with_kv_cache`

For few tokens one kernel makes all three products, and attention turns what it reads. Otherwise all
run one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from webpte.ops.attention.attention import stored_as
from webpte.ops.attention.attention_calls import read_cached
from webpte.ops.attention.attention_kernels import Attention, keeps_fresh, lower_split, scratch
from webpte.ops.attention.rope import angles_of, operands, start_of
from webpte.ops.core.args import Args
from webpte.ops.core.fused_call import Part, grouped, lower_parts, parts_of, register_fusion
from webpte.ops.core.records import Dispatch, Scratch
from webpte.ops.gemm.fused_linear_q4 import ALL_LINEARS, linears_of, lower_qkv, prologue_of
from webpte.ops.gemm.fused_matmul import qkv_dispatches
from webpte.ops.gemm.gemv_multi import lower_gemv_multi
from webpte.ops.gemm.matmul import LINEAR

ATTENTION_BLOCK = "webpte.attention_block"
SDPA = "sdpa_with_kv_cache.default"
# By name: whether pairs lie half of the turned elements apart.
ROPES = {"et_vk.apply_rotary_emb.default": False, "et_vk.apply_rotary_emb_hf.default": True}
# Of wgsl/gemm/linear_q4_skinny_qkv.wgsl, the one that binds most.
STORAGE_BUFFERS = 9


def lower_attention_block(args: Args) -> list[Dispatch]:
    parts = list(parts_of(args))
    _, attention = parts[-1]
    steps = grouped(parts, {LINEAR}, qkv_dispatches) if parts_are_dense(parts) else None
    if args.target.software or args.target.storage_buffers < STORAGE_BUFFERS:
        return lower_parts(args, steps)
    names = ("query", "k_cache", "v_cache", "key", "value")
    call = stored_as(attention, read_cached(attention, fresh=True), *names)
    rope = next(part for part in parts if part[0].name in ROPES)
    if attention.out.numel == 0 or not keeps_fresh(call) or not turns_quads(rope):
        return lower_parts(args, steps)
    linears = [part for op, part in parts if op.name in ALL_LINEARS]
    sizes = [part.out.numel for part in linears]
    fresh = scratch("attention_fresh", sum(sizes) * 4)
    if parts_are_dense(parts):
        products = lower_gemv_multi(linears, prologue_of(parts), fresh, "f32")
    else:
        products = lower_qkv(linears_of(parts), prologue_of(parts), fresh)
    if products is None:
        return lower_parts(args, steps)
    places = sizes[0], sizes[0] + sizes[1]
    return products + turned_attention(call, rope, fresh, places)


def parts_are_dense(parts: Sequence[Part]) -> bool:
    return any(op.name == LINEAR for op, _ in parts)


def turns_quads(rope: Part) -> bool:
    """Whether pairs of elements are pairs of quads, or within one."""
    op, args = rope
    turned, _, _ = angles_of(args, ROPES[op.name])
    return turned % (4 if ROPES[op.name] else 2) == 0


def turned_attention(
    call: Attention, rope: Part, fresh: Scratch, places: tuple[int, int]
) -> list[Dispatch]:
    """Attention that turns queries and fresh keys as it reads them from one place."""
    op, args = rope
    half = ROPES[op.name]
    _, _, cosines, sines = operands(args)
    turning = (*angles_of(args, half), *places)
    call = replace(call, turning=turning, target=args.target)
    first, *rest = lower_split(
        call, call.fresh, "attention_flash_split_rope", (fresh, cosines.id, sines.id)
    )
    turned = replace(
        first,
        bindings=(*first.bindings, start_of(args, half)),
        overrides=(*first.overrides, ("HALF", int(half))),
    )
    return [turned, *rest]


register_fusion(ATTENTION_BLOCK, lower_attention_block)
