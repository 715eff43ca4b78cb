"""Chooses a kernel for an `Attention`, by its sizes and the device."""

from __future__ import annotations

from dataclasses import replace

from webpte.engine.ops.attention.attention_kernels import (
    FEW_ROWS,
    MAX_SPLIT_HEAD,
    Attention,
    fits_small_heads,
    lower_flash,
    lower_simple,
    lower_small_heads,
    lower_split,
    update_cache,
    writes_cache,
)
from webpte.engine.ops.attention.attention_matrix import lower_matrices, takes_matrix_attention
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.ops.core.target import Target


def lower_attention(call: Attention, target: Target) -> list[Dispatch]:
    """Lower attention, with the writes of new keys and values to their caches."""
    call = replace(call, target=target)
    if target.software:
        return update_cache(call) + lower_simple(call)
    if writes_cache(call):
        return lower_split(call, call.new)
    small = max(call.q.sizes[3], call.v.sizes[3]) <= MAX_SPLIT_HEAD
    if call.rows <= FEW_ROWS and small:
        return update_cache(call) + lower_split(call, None)
    if takes_matrix_attention(call, target):
        return update_cache(call) + lower_matrices(call)
    if fits_small_heads(call, target):
        return update_cache(call) + lower_small_heads(call)
    return update_cache(call) + lower_flash(call)
