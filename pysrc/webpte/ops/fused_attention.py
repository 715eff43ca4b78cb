"""From x to attention in three dispatches: rms_norm, q/k/v, rope, the cache, attention.

    attention_block   queries, keys and values are products of one x, maybe normalized before; the
                      first two are turned; then `sdpa_with_kv_cache`; then, maybe, the product that
                      takes its result, and the residual

For few tokens one kernel makes all three products, and attention turns what it reads. For one token
of a small model the last product adds up what attention has split. Otherwise all run one after the
other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from webpte.ops.args import Args
from webpte.ops.attention import stored_as
from webpte.ops.attention_calls import read_cached
from webpte.ops.attention_kernels import MERGE, Attention, keeps_fresh, lower_split, scratch
from webpte.ops.dense_rows import LINEAR, lower_several
from webpte.ops.fused import (
    Part,
    Step,
    grouped,
    lower_parts,
    parts_of,
    register_fusion,
    single_steps,
)
from webpte.ops.fused_dense import joined_dispatches
from webpte.ops.fused_products import (
    ALL_LINEARS,
    LINEAR_OF,
    intake_of,
    linears_of,
    lower_joined,
    sum_dispatches,
)
from webpte.ops.intake import Intake, Shares
from webpte.ops.linear_q4 import lower_linear, product_of, weights_of
from webpte.ops.one_row import takes_shares
from webpte.ops.records import Dispatch, Scratch
from webpte.ops.rope import angles_of, operands, start_of
from webpte.ops.target import Target

ATTENTION_BLOCK = "webpte.attention_block"
SDPA = "sdpa_with_kv_cache.default"
# By name: whether pairs lie half of the turned elements apart.
ROPES = {"et_vk.apply_rotary_emb.default": False, "et_vk.apply_rotary_emb_hf.default": True}
# Of wgsl/linear_q4_joined.wgsl, the one that binds most.
STORAGE_BUFFERS = 9


def lower_attention_block(args: Args) -> list[Dispatch]:
    parts = list(parts_of(args))
    end = 1 + next(i for i, (op, _) in enumerate(parts) if op.name == SDPA)
    before, after = parts[:end], parts[end:]
    found = attention_dispatches(before, args.target)
    if found is not None and after:
        merged = merged_dispatches(found, after)
        if merged is not None:
            return merged
    if found is not None:
        steps = [Step(tuple(before), lambda _: found)]
    elif parts_are_dense(before):
        steps = grouped(before, {LINEAR}, joined_dispatches)
    else:
        steps = single_steps(before)
    return lower_parts(args, [*steps, Step(tuple(after), product_after)] if after else steps)


def attention_dispatches(parts: Sequence[Part], target: Target) -> list[Dispatch] | None:
    """Of few tokens, in three dispatches or two; None if no kernels take it so."""
    _, attention = parts[-1]
    if target.software or target.storage_buffers < STORAGE_BUFFERS:
        return None
    names = ("query", "k_cache", "v_cache", "key", "value")
    call = stored_as(attention, read_cached(attention, fresh=True), *names)
    rope = next(part for part in parts if part[0].name in ROPES)
    if attention.out.numel == 0 or not keeps_fresh(call) or not turns_quads(rope):
        return None
    linears = [part for op, part in parts if op.name in ALL_LINEARS]
    sizes = [part.out.numel for part in linears]
    fresh = scratch("attention_fresh", sum(sizes) * 4)
    if parts_are_dense(parts):
        products = lower_several(linears, intake_of(parts), fresh, "f32")
    else:
        products = lower_joined(linears_of(parts), intake_of(parts), fresh)
    if products is None:
        return None
    places = sizes[0], sizes[0] + sizes[1]
    return products + turned_attention(call, rope, fresh, places)


def product_after(parts: Sequence[Part], intake: Intake | None = None) -> list[Dispatch] | None:
    """The product that takes what attention gives, with the residual if one is added to it."""
    index = next(i for i, (op, _) in enumerate(parts) if op.name in LINEAR_OF)
    (op, product), last = parts[index], parts[-1][1]
    if last is not product:
        return sum_dispatches(parts[index:], intake)
    return lower_linear(LINEAR_OF[op.name], product, norm=intake)


def merged_dispatches(
    attention: Sequence[Dispatch], after: Sequence[Part]
) -> list[Dispatch] | None:
    """Attention whose shares the product adds up by itself; None if that is not worth it."""
    *first, split, merge = attention
    if merge.kernel != MERGE:
        return None
    op, product = next(part for part in after if part[0].name in LINEAR_OF)
    splits, size = dict(merge.types)["SPLITS"], dict(merge.overrides)["VALUE_HEAD"]
    values, stats, _ = merge.bindings
    shares = Shares(values, stats, int(splits), int(size))
    linear = LINEAR_OF[op.name]
    sizes = product_of(linear, product), weights_of(linear, product)
    if not takes_shares(*sizes, shares, product.target):
        return None
    intake = Intake(product.tensor("x"), shares=shares)
    products = product_after(after, intake)
    return None if products is None else [*first, split, *products]


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
    first, *rest = lower_split(call, call.fresh, "attention_rope", (fresh, cosines.id, sines.id))
    turned = replace(
        first,
        bindings=(*first.bindings, start_of(args, half)),
        overrides=(*first.overrides, ("HALF", int(half))),
    )
    return [turned, *rest]


register_fusion(ATTENTION_BLOCK, lower_attention_block)
