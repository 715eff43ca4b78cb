"""Kernels of language models, which ExecuTorch has in the namespace `llama`.

They are outside of delegates where a partitioner does not take them: with ring caches, quantized
caches, and the linear attention of newer models.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.dtypes import DTYPES
from webpte.engine.ops.attention.cache_update import AT_INDICES, AT_POSITION
from webpte.engine.ops.attention.gated_delta_rule import NAMES
from webpte.engine.ops.attention.quantized_attention import QUANTIZED_SDPA
from webpte.engine.portable.eager import run_op
from webpte.engine.portable.registry import (
    FLOATS,
    INDICES,
    MOVED,
    TRUTH,
    OutSpec,
    register,
    register_op,
)

Array = np.ndarray

ATTENTION = "custom_sdpa.default"
BYTES = ("query", "key", "value", "q_zero_points", "k_zero_points", "v_zero_points")
NO_MEANING = "changes the cache; its output has no meaning"


# KV caches


def dummy(out: OutSpec) -> Array:
    return np.zeros(out.sizes, out.dtype.numpy)


def update_cache(out: OutSpec, value: Array, cache: Array, start: int) -> tuple[Array, Array]:
    dims = [(DTYPES[cache.dtype.name], cache.shape)]
    (updated,) = run_op(AT_POSITION, (value, cache, start), dims)
    return dummy(out), updated


def update_cache_at(
    out: OutSpec, value: Array, cache: Array, start: int, indices: Array
) -> tuple[Array, Array]:
    dims = [(DTYPES[cache.dtype.name], cache.shape)]
    (updated,) = run_op(AT_INDICES, (value, cache, start, indices), dims)
    return dummy(out), updated


def attention_with_caches(
    query: Array,
    key: Array,
    value: Array,
    key_cache: Array,
    value_cache: Array,
    start: int,
    seq_len: int,
    *rest: object,
) -> tuple[Array, Array, Array]:
    caches = key_cache.copy(), value_cache.copy()
    arguments = (query, key, value, *caches, start, seq_len, *rest)
    dims = [(DTYPES[query.dtype.name], query.shape)]
    (out,) = run_op("sdpa_with_kv_cache.default", arguments, dims)
    return out, *caches


register(
    "llama::update_cache.out",
    "value, cache, start_pos",
    update_cache,
    typed=True,
    changes=("cache",),
    notes=NO_MEANING,
    op=AT_POSITION,
    types=MOVED,
)
register(
    "llama::update_cache_with_indices.out",
    "value, cache, start_pos, indices",
    update_cache_at,
    typed=True,
    changes=("cache",),
    notes=NO_MEANING,
    op=AT_INDICES,
    types=MOVED,
    apart={"indices": INDICES},
)
register_op(
    "llama::custom_sdpa.out",
    "query, key, value, start_pos, attn_mask, drpout_p, is_causal, scale",
    ATTENTION,
    notes=f"`{ATTENTION}`",
    heavy=True,
    apart={"attn_mask": FLOATS | TRUTH},
)
register(
    "llama::sdpa_with_kv_cache.out",
    "query, key, value, key_cache, value_cache, start_pos, seq_len, attn_mask, drpout_p, "
    "is_causal, scale",
    attention_with_caches,
    changes=("key_cache", "value_cache"),
    notes="changes the caches",
)
register_op(
    "llama::custom_quantized_sdpa.out",
    "query, key, value, start_pos, attn_mask, drpout_p, is_causal, scale, q_zero_points, q_scales, "
    "k_zero_points, k_scales, v_zero_points, v_scales, is_seq_at_dim_2",
    QUANTIZED_SDPA,
    notes=f"`{QUANTIZED_SDPA}`",
    heavy=True,
    types=frozenset({"float32"}),
    apart={"attn_mask": FLOATS | TRUTH, **dict.fromkeys(BYTES, frozenset({"int8"}))},
)
register_op(
    "llama::fast_hadamard_transform.out",
    "mat",
    "webpte.hadamard.default",
    notes="`webpte.hadamard.default`",
)
for _name in ("gated_delta_rule", "channelwise_gated_delta_rule"):
    register_op(
        f"llama::{_name}.out",
        ", ".join(NAMES),
        "webpte.gated_delta_rule.default",
        outputs=2,
        notes="`webpte.gated_delta_rule.default`",
        heavy=True,
    )
