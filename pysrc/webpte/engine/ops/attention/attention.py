"""Scaled dot product attention, with and without a KV cache.

    out[token, head] = sum over keys of softmax(scale * q . k + mask)[key] * v[key]

sdpa_with_kv_cache   q, k, v [B, S, heads, D] and caches [B, C, key heads, D]: writes k and v into
                     the caches from the position on, then attends to the keys up to position + S
custom_sdpa          attention to the caches, without writing them
update_cache         writes one cache; its output has no meaning
et_vk.gemma4_sdpa    attention of q to every position of k and v [B, N, key heads, D], with a mask
                     [S, N]
et_vk.sdpa           q [.., heads, S, D], k and v [.., key heads, K, D]: neither cache nor position

Query head h reads key head h // (heads // key heads). Causal attention hides the keys after a
query's own position. A mask broadcasts to [B, heads, S, keys] and is added to the logits; in the
ops with a cache, a boolean mask is true for the keys that take part. A mask as long as the cache
covers the whole cache, as in ExecuTorch; a shorter mask must end at the last query. A row without
any key is zero, as in torch's scaled_dot_product_attention.

With a `window`, causal attention also hides keys that are `window` or more positions before the
query. A soft cap c replaces a logit by c * tanh(logit / c). Files have neither argument: load/ adds
both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from webpte.engine.ops.attention.attention_calls import (
    cache_heads,
    cached_shape,
    masked_shape,
    plain_shape,
    read_cached,
    read_masked,
    read_plain,
    tokens_first,
    update_shape,
    with_cache_shape,
)
from webpte.engine.ops.attention.attention_choice import lower_attention
from webpte.engine.ops.attention.attention_kernels import Attention
from webpte.engine.ops.attention.cache_packing import pack_rows, packing_of, unpack_rows
from webpte.engine.ops.attention.cache_write_kernels import lower_packing, lower_update
from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import INT32_MAX, float_type
from webpte.engine.ops.core.records import Dispatch, SymIntBound
from webpte.engine.ops.core.registry import register
from webpte.engine.shapes import numel

Array = np.ndarray

OWN = "window: int = 0, soft_cap: number? = None"  # arguments that load/ adds
WITH_CACHE = (
    "query: tensor, key: tensor, value: tensor, k_cache: tensor, v_cache: tensor, "
    "input_pos: live, seq_len: any, attn_mask: tensor? = None, dropout_p: number? = 0, "
    f"is_causal: bool = False, scale: number? = None, {OWN} -> tensor"
)
CACHE_ONLY = (
    "query: tensor, k_cache: tensor, v_cache: tensor, input_pos: live, "
    "attn_mask: tensor? = None, dropout_p: number? = 0, "
    f"is_causal: bool = False, scale: number? = None, {OWN} -> tensor"
)
UPDATE = "value: tensor, cache: tensor, input_pos: live -> tensor"
MASKED = (
    "query: tensor, key: tensor, value: tensor, start_pos: any, attn_mask: tensor, "
    "dropout_p: number? = 0, is_causal: bool = False, scale: number? = None -> tensor"
)
PLAIN = (
    "query: tensor, key: tensor, value: tensor, attn_mask: tensor? = None, "
    "scale: number? = None -> tensor"
)


# Lowering


def position_bounds(args: Args, call: Attention) -> list[SymIntBound]:
    """Return the bounds of the first query's position."""
    tokens, positions = call.q.sizes[2], call.k.sizes[2]
    high = positions - tokens
    if not call.follows and call.new is None:
        high = INT32_MAX - tokens  # the mask alone selects positions of the cache
    bounds = args.bound("input_pos", 0, high, f"{tokens} tokens in {positions} cache positions")
    if not call.follows and call.keys != positions:
        last = call.keys - tokens
        why = f"{tokens} tokens at the end of a mask of {call.keys} keys"
        bounds += args.bound("input_pos", last, last, why)
    return bounds


def cached_bounds(args: Args, writes: bool) -> list[SymIntBound]:
    return [] if args.out.numel == 0 else position_bounds(args, read_cached(args, writes))


def stored_as(args: Args, call: Attention, *names: str) -> Attention:
    """Return the call with its tensors' element type in memory; packed caches keep theirs."""
    tensors = [tensor for tensor in map(args.tensor, names) if tensor.dtype.packing is None]
    return replace(call, stored=float_type(args, *tensors, args.out))


def lower_cached(args: Args, writes: bool) -> list[Dispatch]:
    names = ("query", "k_cache", "v_cache", *(("key", "value") if writes else ()))
    call = stored_as(args, read_cached(args, writes), *names)
    return [] if args.out.numel == 0 else lower_attention(call, args.target)


def lower_plain(args: Args, read: Callable[[Args], Attention]) -> list[Dispatch]:
    call = stored_as(args, read(args), "query", "key", "value")
    return [] if args.out.numel == 0 else lower_attention(call, args.target)


def update_bounds(args: Args) -> list[SymIntBound]:
    value, cache = args.tensor("value"), args.tensor("cache")
    if value.numel == 0:
        return []
    tokens, positions = value.dims[1], cache.dims[1]
    why = f"{tokens} tokens in {positions} cache positions"
    return args.bound("input_pos", 0, positions - tokens, why)


def lower_cache_update(args: Args, target: TensorArg) -> list[Dispatch]:
    """Write new rows to `target`: the cache, or a copy of it."""
    value = args.tensor("value")
    if value.numel == 0:
        return []
    packing, new, position = (
        packing_of(target.dtype),
        tokens_first(value),
        args.uniform("input_pos"),
    )
    held = cache_heads(target, value.dims[3])
    if packing is not None:
        return [lower_packing(new, held, packing, float_type(args, value), position)]
    return [lower_update(new, held, target.dtype.storage.itemsize, position)]


# References

AT_ONCE = 1 << 18  # numbers


def attend(q: Array, k: Array, v: Array, call: Attention, seen: Array, added: Array) -> Array:
    """Compute attention in float64; all arrays are [batch, heads, tokens, ..], broadcastable."""
    batch, heads, tokens, size = call.out.sizes
    result = np.zeros((batch, heads, tokens, size))
    shape = (batch, heads, tokens, k.shape[2])
    seen, added = np.broadcast_to(seen, shape), np.broadcast_to(added, shape)
    # Key heads per step: their logits and copies stay small.
    most = max(1, AT_ONCE // max(1, k.shape[2] * max(k.shape[3], size, tokens * call.group)))
    for b in range(batch):
        for first in range(0, heads, most * call.group):
            part = slice(first, min(first + most * call.group, heads))
            head = np.arange(part.start, part.stop).reshape(-1, call.group)
            own, keys, values = (  # [key heads, heads of each or 1, tokens, ..]
                x[b % x.shape[0]][at % x.shape[1]].astype(np.float64)
                for x, at in ((q, head), *((x, head[:, :1] // call.group) for x in (k, v)))
            )
            logits = own @ keys.swapaxes(2, 3) * call.scale
            if call.cap:
                logits = call.cap * np.tanh(logits / call.cap)
            logits = logits + added[b, part].reshape(logits.shape)
            logits[~seen[b, part].reshape(logits.shape)] = -np.inf
            peak = logits.max(axis=3, keepdims=True, initial=-np.inf)
            weights = np.exp(logits - np.where(np.isneginf(peak), 0, peak))
            sums = weights.sum(axis=3, keepdims=True)
            found = weights @ values / np.where(sums == 0, 1, sums)
            result[b, part] = found.reshape(part.stop - part.start, tokens, size)
    return result


def mask_arrays(args: Args, call: Attention) -> tuple[Array, Array]:
    """Return the keys that take part, and the numbers to add to the logits."""
    mask = args.optional_array("attn_mask")
    if mask is None:
        return np.array(True), np.array(0.0)
    assert call.mask is not None
    mask = mask if mask.ndim <= 4 else mask.reshape(numel(mask.shape[:-3]), *mask.shape[-3:])
    if call.mask.boolean:
        return mask, np.array(0.0)
    return np.array(True), mask.astype(np.float64)


def write_rows(args: Args, new: str, cache: str, held: Array) -> None:
    """Write new keys or values to the array of a cache, or a copy of it, packed if the cache is."""
    rows, position = args.array(new), args.integer("input_pos")
    packing = packing_of(args.tensor(cache).dtype)
    packed = rows if packing is None else pack_rows(rows, packing)
    held[:, position : position + rows.shape[1]] = packed


def read_rows(args: Args, cache: str, count: int) -> Array:
    """Return the first `count` positions of a cache as floats."""
    held = args.array(cache)[:, :count]
    packing = packing_of(args.tensor(cache).dtype)
    size = args.tensor("query").dims[-1]
    return held if packing is None else unpack_rows(held, size, packing)


def attend_from(args: Args, call: Attention, q: Array, k: Array, v: Array) -> Array:
    """Compute attention from the live position; arrays are [batch, heads, tokens, size]."""
    position = args.integer("input_pos")
    count = call.keys + (position if call.follows else 0)
    seen, added = mask_arrays(args, call)
    if call.causal:
        ago = position + np.arange(q.shape[2])[:, None] - np.arange(count)
        seen = seen & (ago >= 0) & (ago < (call.window or count))
    return attend(q, k[:, :, :count], v[:, :, :count], call, seen, added)


def run_cached(args: Args, writes: bool) -> Array:
    call = read_cached(args, writes)
    q, position = args.array("query"), args.integer("input_pos")
    if writes:
        write_rows(args, "key", "k_cache", args.array("k_cache"))
        write_rows(args, "value", "v_cache", args.array("v_cache"))
    count = call.keys + (position if call.follows else 0)
    keys, values = (read_rows(args, name, count) for name in ("k_cache", "v_cache"))
    arrays = (x.transpose(0, 2, 1, 3) for x in (q, keys, values))
    return attend_from(args, call, *arrays).transpose(0, 2, 1, 3).astype(q.dtype)


def run_plain(args: Args) -> Array:
    call = read_plain(args)
    arrays = (args.array(name) for name in ("query", "key", "value"))
    q, k, v = (x.reshape(numel(x.shape[:-3]), *(1, *x.shape)[-3:]) for x in arrays)
    result = attend(q, k, v, call, *mask_arrays(args, call))
    return result.reshape(plain_shape(args)[0]).astype(q.dtype)


def run_masked(args: Args) -> Array:
    arrays = (args.array(name) for name in ("query", "key", "value"))
    q, k, v = (x.transpose(0, 2, 1, 3) for x in arrays)
    call = read_masked(args)
    return attend(q, k, v, call, *mask_arrays(args, call)).transpose(0, 2, 1, 3).astype(q.dtype)


def run_update(args: Args) -> Array:
    write_rows(args, "value", "cache", args.array("cache"))
    if args.out.id == args.tensor("cache").id:
        return args.array("cache")
    return np.zeros(args.out.maximum, args.out.dtype.numpy)


register(
    "sdpa_with_kv_cache.default",
    WITH_CACHE,
    shape=with_cache_shape,
    lower=lambda args: lower_cached(args, writes=True),
    bounds=lambda args: cached_bounds(args, writes=True),
    reference=lambda args: run_cached(args, writes=True),
    mutates=("k_cache", "v_cache"),
)

register(
    "custom_sdpa.default",
    CACHE_ONLY,
    shape=cached_shape,
    lower=lambda args: lower_cached(args, writes=False),
    bounds=lambda args: cached_bounds(args, writes=False),
    reference=lambda args: run_cached(args, writes=False),
)

register(
    "update_cache.default",
    UPDATE,
    shape=update_shape,
    lower=lambda args: lower_cache_update(args, args.tensor("cache")),
    bounds=update_bounds,
    reference=run_update,
    mutates=("cache",),
)

register(
    "et_vk.sdpa.default",
    PLAIN,
    shape=plain_shape,
    lower=lambda args: lower_plain(args, read_plain),
    reference=run_plain,
)

register(
    "et_vk.gemma4_sdpa.default",
    MASKED,
    shape=masked_shape,
    lower=lambda args: lower_plain(args, read_masked),
    reference=run_masked,
)
