"""Attention of many queries by subgroup matrices, for heads of 64 or 128 elements.

attention_split_f16   splits the cached keys and values into f16, in blocks of 32 keys
attention_matrix      flash attention: logits and weighted values are products of matrices

Numbers are split as in ops/gemm/subgroup_matrix/tiles.py: into two f16 with three products, or a
single f16. Queries, keys, and columns of a block's values are scaled by powers of two; weights,
which are at most 1, need no scale. Logits, softmax and sums over blocks are float32.
"""

from __future__ import annotations

from dataclasses import replace

from webpte.engine.ops.attention.attention_kernels import (
    TILE_ROWS,
    Attention,
    attention_dispatches,
    pack_params,
    scratch,
    without,
)
from webpte.engine.ops.core.records import Dispatch, ceil_div, fold_grid
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.gemm.subgroup_matrix.tiles import SHARED_BYTES

KEYS, ROUND = (
    32,
    64,
)  # keys per block and elements per step, as in wgsl/lib/attention/attention_blocks.wgsl
SIZES = (64, 128)  # sizes of heads
LEAST_ROWS = 128  # rows of a key head; for fewer, splitting all keys takes too long
MOST_BYTES = 1 << 28  # most bytes of split keys and values
UNIT_BYTES = 16


def takes_matrix_attention(call: Attention, target: Target) -> bool:
    """Return whether subgroup matrices take a call on this device."""
    there = target.subgroup_matrices and target.shared_bytes >= SHARED_BYTES
    fits = call.q.sizes[3] == call.v.sizes[3] and call.q.sizes[3] in SIZES
    most = min(MOST_BYTES, target.binding_bytes)
    return there and fits and call.rows >= LEAST_ROWS and split_bytes(call, target) <= most


def parts_of_numbers(call: Attention, target: Target) -> int:
    """Return 1 or 2: the number of f16 terms per number."""
    return 1 if call.stored == "f16" or target.half_products else 2


def blocks_of(call: Attention) -> int:
    """Return the number of blocks per key head."""
    return ceil_div(call.k.sizes[2], KEYS)


def split_bytes(call: Attention, target: Target) -> int:
    """Return the bytes of all keys and values as f16."""
    heads = call.out.sizes[0] * call.key_heads
    number = 2 * parts_of_numbers(call, target)
    return heads * blocks_of(call) * KEYS * 2 * call.q.sizes[3] * number


def lower_matrices(call: Attention) -> list[Dispatch]:
    """Return the split of keys and values, and attention by matrices, with its reduction."""
    blocks, heads = blocks_of(call), call.out.sizes[0] * call.key_heads
    split = scratch("attention f16", split_bytes(call, call.target))
    scales = scratch("attention scales", heads * blocks * (KEYS + call.q.sizes[3]) * 4)
    types = (
        ("PARTS", str(parts_of_numbers(call, call.target))),
        ("ROUNDS", str(call.q.sizes[3] // ROUND)),
    )
    first, *rest = attention_dispatches(
        call,
        "attention_matrix",
        bindings=(call.q.id, split, scales),
        tiles=ceil_div(call.rows, TILE_ROWS),
        types=(*types, *call.target.matrix_types),
        width=blocks,
    )
    unused = () if call.packing is None else ("VALUE_HEAD",)
    before = Dispatch(
        kernel="attention_split_f16",
        bindings=(call.k.id, call.v.id, split, scales, call.position),
        params=pack_params(call, heads * blocks, lines=(0, 0, blocks)),
        grid=fold_grid(heads * blocks),
        types=(*types, ("FLOAT", call.stored), ("CACHE_FORMAT", call.cache_format)),
        overrides=without(first.overrides, ("GROUP", "CAUSAL", "MASK", *unused)),
    )
    kept = tuple(pair for pair in first.types if pair[0] != "CACHE_FORMAT")
    return [before, replace(first, types=kept), *rest]
