"""Scaled dot product attention, with and without a cache of keys and values.

    out[token, head] = sum over keys of softmax(scale * q . k + mask)[key] * v[key]

sdpa_with_kv_cache   q, k, v [B, S, heads, D] and caches [B, C, key heads, D]: writes k and v into
                     the caches from the position on, then attends to the keys up to position + S
custom_sdpa          the same without the writing
update_cache         the writing alone, for one cache; its output means nothing
et_vk.sdpa           q [.., heads, S, D], k and v [.., key heads, K, D]: neither cache nor position

Query head h reads key head h // (heads // key heads). Causal attention hides the keys after a
query's own position. A mask broadcasts to [B, heads, S, keys]: it is added, or in the ops with a
cache, if it is boolean, true takes part. A mask as long as the cache reaches over all of it, as
in ExecuTorch; a shorter one must end at the last query. A row that sees no key is zero, as in
torch's scaled_dot_product_attention.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from webpte.errors import GraphError, UnsupportedError
from webpte.ops.args import Args, TensorArg
from webpte.ops.attention_kernels import Attention, Heads, Mask, lower_attention, lower_update
from webpte.ops.elementwise import INT32_MAX, float_type
from webpte.ops.records import Dispatch, SymIntBound, pack
from webpte.ops.registry import register
from webpte.ops.rows import check_floats
from webpte.shapes import Dims, broadcast, broadcast_strides, contiguous_strides, numel

Array = np.ndarray

WITH_CACHE = (
    "query: tensor, key: tensor, value: tensor, k_cache: tensor, v_cache: tensor, "
    "input_pos: live, seq_len: any, attn_mask: tensor? = None, dropout_p: number? = 0, "
    "is_causal: bool = False, scale: number? = None -> tensor"
)
CACHE_ONLY = (
    "query: tensor, k_cache: tensor, v_cache: tensor, input_pos: live, "
    "attn_mask: tensor? = None, dropout_p: number? = 0, "
    "is_causal: bool = False, scale: number? = None -> tensor"
)
UPDATE = "value: tensor, cache: tensor, input_pos: live -> tensor"
PLAIN = (
    "query: tensor, key: tensor, value: tensor, attn_mask: tensor? = None, "
    "scale: number? = None -> tensor"
)


# Shapes


def check_fresh(args: Args, what: str, fresh: TensorArg, cache: TensorArg) -> None:
    """[B, S, H, D] into [B, C, H, D]."""
    if fresh.rank != 4 or cache.rank != 4 or fresh.dims[2:] != cache.dims[2:]:
        raise GraphError(
            f"{args.call}: {what} {list(fresh.dims)} into a cache {list(cache.dims)}; "
            "both are [batch, positions, heads, head size] of equal heads and head sizes"
        )
    if fresh.dims[0] != cache.dims[0]:
        raise GraphError(
            f"{args.call}: a batch of {fresh.dims[0]} in {what}, of {cache.dims[0]} in the cache"
        )


def cached_shape(args: Args) -> tuple[Dims]:
    q, keys, values = args.tensor("query"), args.tensor("k_cache"), args.tensor("v_cache")
    check_floats(args, q, keys, values)
    fits = (
        q.rank == keys.rank == 4
        and keys.dims == values.dims
        and (q.dims[0], q.dims[3]) == (keys.dims[0], keys.dims[3])
        and keys.dims[2] > 0
        and q.dims[2] % keys.dims[2] == 0
    )
    if not fits:
        raise GraphError(
            f"{args.call}: queries {list(q.dims)} with caches {list(keys.dims)} and "
            f"{list(values.dims)}; wanted are [batch, tokens, heads, head size] and twice "
            "[batch, positions, key heads, head size], with a multiple of the key heads as heads"
        )
    if keys.id == values.id:
        raise GraphError(f"{args.call}: keys and values share the cache value {keys.id}")
    return (q.dims,)


def with_cache_shape(args: Args) -> tuple[Dims]:
    shape = cached_shape(args)
    tokens = args.tensor("query").dims[1]
    for what, cache in (("key", "k_cache"), ("value", "v_cache")):
        fresh = args.tensor(what)
        check_floats(args, fresh)
        check_fresh(args, what, fresh, args.tensor(cache))
        if fresh.dims[1] != tokens:
            raise GraphError(f"{args.call}: {tokens} queries, but {fresh.dims[1]} in {what}")
    return shape


def update_shape(args: Args) -> tuple[Dims]:
    value, cache = args.tensor("value"), args.tensor("cache")
    check_fresh(args, "value", value, cache)
    if value.dtype.stored != cache.dtype.stored:
        raise GraphError(
            f"{args.call}: {value.dtype.name} values into a cache of {cache.dtype.name}"
        )
    return (args.out.maximum,)


def head_count(tensor: TensorArg) -> int:
    return (1, *tensor.dims)[-3]


def plain_shape(args: Args) -> tuple[Dims]:
    """As in matmul: all dims but the last two broadcast; besides, heads may share key heads."""
    q, k, v = args.tensor("query"), args.tensor("key"), args.tensor("value")
    check_floats(args, q, k, v)
    if min(q.rank, k.rank, v.rank) < 2 or q.dims[-1] != k.dims[-1] or k.dims[-2] != v.dims[-2]:
        raise GraphError(
            f"{args.call}: queries {list(q.dims)}, keys {list(k.dims)}, values {list(v.dims)}; "
            "wanted are [.., tokens, size], [.., keys, size] and [.., keys, value size]"
        )
    heads = head_count(q)
    (shared,) = broadcast((head_count(k),), (head_count(v),))
    if heads != 1 and (shared == 0 or heads % shared):
        raise GraphError(f"{args.call}: {heads} query heads do not share {shared} key heads evenly")
    batch = broadcast(*(tensor.dims[:-3] for tensor in (q, k, v)))
    dims = (*batch, heads if heads != 1 else shared, q.dims[-2], v.dims[-1])
    return (dims[-max(q.rank, k.rank, v.rank) :],)


# From arguments to an Attention


def heads_first(tensor: TensorArg) -> Heads:
    """[.., heads, tokens, size]; batch and heads of size 1 serve all."""
    sizes = (numel(tensor.dims[:-3]), *(1, *tensor.dims)[-3:])
    batch, head, token, _ = contiguous_strides(sizes)
    return Heads(
        tensor.id, sizes, (batch if sizes[0] > 1 else 0, head if sizes[1] > 1 else 0, token)
    )


def tokens_first(tensor: TensorArg) -> Heads:
    """[batch, tokens, heads, size]"""
    batch, tokens, heads, size = tensor.dims
    steps = contiguous_strides(tensor.dims)
    return Heads(tensor.id, (batch, heads, tokens, size), (steps[0], steps[2], steps[1]))


def read_mask(args: Args, target: Dims, boolean: bool) -> Mask | None:
    """The mask as [batch, heads, tokens, keys], which is `target`."""
    tensor = args.optional_tensor("attn_mask")
    if tensor is None:
        return None
    # Batch dims are counted as one, so a mask must have all of them or none.
    dims = tensor.dims if tensor.rank <= 4 else (numel(tensor.dims[:-3]), *tensor.dims[-3:])
    try:
        fits = broadcast(dims, target) == target
    except GraphError:
        fits = False
    if not fits:
        raise GraphError(
            f"{args.call}: a mask {list(tensor.dims)} does not broadcast to "
            f"[batch, heads, tokens, keys], which is {list(target)}"
        )
    return Mask(tensor, broadcast_strides(dims, target), boolean and tensor.dtype.name == "bool")


def read_scale(args: Args, size: int) -> float:
    scale = args.optional_number("scale")
    return 1 / math.sqrt(max(size, 1)) if scale is None else float(scale)


def mask_keys(args: Args, positions: int) -> int | None:
    """How many keys the mask names; None where there is none or one column is for all keys."""
    mask = args.optional_tensor("attn_mask")
    keys = mask.dims[-1] if mask is not None and mask.rank else 1
    if mask is None or (keys == 1 and positions != 1):
        return None
    if keys > positions:
        raise GraphError(f"{args.call}: a mask for {keys} keys, but {positions} positions")
    return keys


def read_cached(args: Args, fresh: bool) -> Attention:
    if args.optional_number("dropout_p"):
        raise UnsupportedError(f"{args.call}: dropout; only dropout_p 0 is supported")
    q, keys, values = args.tensor("query"), args.tensor("k_cache"), args.tensor("v_cache")
    positions = keys.dims[1]
    named = mask_keys(args, positions)
    queries = tokens_first(q)
    return Attention(
        q=queries,
        k=tokens_first(keys),
        v=tokens_first(values),
        out=Heads(args.out.id, queries.sizes, queries.strides),
        keys=q.dims[1] if named is None else named,
        follows=named is None,
        causal=args.flag("is_causal"),
        scale=read_scale(args, q.dims[-1]),
        position=args.uniform("input_pos"),
        mask=read_mask(args, (*queries.sizes[:3], named or positions), boolean=True),
        fresh=(tokens_first(args.tensor("key")), tokens_first(args.tensor("value")))
        if fresh
        else None,
    )


def read_plain(args: Args) -> Attention:
    q, k, v = args.tensor("query"), args.tensor("key"), args.tensor("value")
    (dims,) = plain_shape(args)
    sizes = (numel(dims[:-3]), *(1, *dims)[-3:])
    for tensor in (q, k, v):
        if numel(tensor.dims[:-3]) not in (1, sizes[0]):
            raise UnsupportedError(
                f"{args.call}: {list(tensor.dims)} broadcasts along some batch dims of "
                f"{list(dims)}; along all or none is supported"
            )
    batch, head, token, _ = contiguous_strides(sizes)
    return Attention(
        q=heads_first(q),
        k=heads_first(k),
        v=heads_first(v),
        out=Heads(args.out.id, sizes, (batch, head, token)),
        keys=k.dims[-2],
        follows=False,
        causal=False,
        scale=read_scale(args, q.dims[-1]),
        position=pack("4i", 0, 0, 0, 0),
        mask=read_mask(args, (*sizes[:3], k.dims[-2]), boolean=False),
    )


# Lowering


def position_bounds(args: Args, call: Attention) -> list[SymIntBound]:
    """Where the first query may stand."""
    tokens, positions = call.q.sizes[2], call.k.sizes[2]
    high = positions - tokens
    if not call.follows and call.fresh is None:
        high = INT32_MAX - tokens  # the mask alone says which places of the cache count
    bounds = args.bound("input_pos", 0, high, f"{tokens} tokens in {positions} cache positions")
    if not call.follows and call.keys != positions:
        last = call.keys - tokens
        why = f"{tokens} tokens at the end of a mask of {call.keys} keys"
        bounds += args.bound("input_pos", last, last, why)
    return bounds


def cached_bounds(args: Args, fresh: bool) -> list[SymIntBound]:
    return [] if args.out.numel == 0 else position_bounds(args, read_cached(args, fresh))


def stored_as(args: Args, call: Attention, *names: str) -> Attention:
    """The call, with the type that its tensors have in memory."""
    return replace(call, stored=float_type(args, *map(args.tensor, names), args.out))


def lower_cached(args: Args, fresh: bool) -> list[Dispatch]:
    names = ("query", "k_cache", "v_cache", *(("key", "value") if fresh else ()))
    call = stored_as(args, read_cached(args, fresh), *names)
    return [] if args.out.numel == 0 else lower_attention(call)


def lower_plain(args: Args) -> list[Dispatch]:
    call = stored_as(args, read_plain(args), "query", "key", "value")
    return [] if args.out.numel == 0 else lower_attention(call)


def update_bounds(args: Args) -> list[SymIntBound]:
    value, cache = args.tensor("value"), args.tensor("cache")
    if value.numel == 0:
        return []
    tokens, positions = value.dims[1], cache.dims[1]
    why = f"{tokens} tokens in {positions} cache positions"
    return args.bound("input_pos", 0, positions - tokens, why)


def lower_cache_update(args: Args) -> list[Dispatch]:
    value, cache = args.tensor("value"), args.tensor("cache")
    if value.numel == 0:
        return []
    return [
        lower_update(
            tokens_first(value),
            tokens_first(cache),
            cache.dtype.storage.itemsize,
            args.uniform("input_pos"),
        ),
    ]


# References


def attend(q: Array, k: Array, v: Array, call: Attention, seen: Array, added: Array) -> Array:
    """In float64; all arrays as [batch, heads, tokens, ..], broadcastable."""
    batch, heads, tokens, size = call.out.sizes
    result = np.zeros((batch, heads, tokens, size))
    shape = (batch, heads, tokens, k.shape[2])
    seen, added = np.broadcast_to(seen, shape), np.broadcast_to(added, shape)
    for b in range(batch):
        for h in range(heads):
            at = h // call.group
            own, keys, values = (
                x[b % x.shape[0], head % x.shape[1]].astype(np.float64)
                for x, head in ((q, h), (k, at), (v, at))
            )
            logits = own @ keys.T * call.scale + added[b, h]
            logits[~seen[b, h]] = -np.inf
            peak = logits.max(axis=1, keepdims=True, initial=-np.inf)
            weights = np.exp(logits - np.where(np.isneginf(peak), 0, peak))
            sums = weights.sum(axis=1, keepdims=True)
            result[b, h] = weights @ values / np.where(sums == 0, 1, sums)
    return result


def mask_arrays(args: Args, call: Attention) -> tuple[Array, Array]:
    """Which keys take part, and what is added to the logits."""
    mask = args.optional_array("attn_mask")
    if mask is None:
        return np.array(True), np.array(0.0)
    assert call.mask is not None
    mask = mask if mask.ndim <= 4 else mask.reshape(numel(mask.shape[:-3]), *mask.shape[-3:])
    if call.mask.boolean:
        return mask, np.array(0.0)
    return np.array(True), mask.astype(np.float64)


def run_cached(args: Args, fresh: bool) -> Array:
    call = read_cached(args, fresh)
    q, keys, values = (args.array(name) for name in ("query", "k_cache", "v_cache"))
    tokens, position = q.shape[1], args.integer("input_pos")
    if fresh:
        keys[:, position : position + tokens] = args.array("key")
        values[:, position : position + tokens] = args.array("value")
    count = call.keys + (position if call.follows else 0)
    seen, added = mask_arrays(args, call)
    if call.causal:
        seen = seen & (np.arange(count) <= position + np.arange(tokens)[:, None])
    q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, keys[:, :count], values[:, :count]))
    return attend(q, k, v, call, seen, added).transpose(0, 2, 1, 3).astype(q.dtype)


def run_plain(args: Args) -> Array:
    call = read_plain(args)
    arrays = (args.array(name) for name in ("query", "key", "value"))
    q, k, v = (x.reshape(numel(x.shape[:-3]), *(1, *x.shape)[-3:]) for x in arrays)
    result = attend(q, k, v, call, *mask_arrays(args, call))
    return result.reshape(plain_shape(args)[0]).astype(q.dtype)


def run_update(args: Args) -> Array:
    value, cache, start = args.array("value"), args.array("cache"), args.integer("input_pos")
    cache[:, start : start + value.shape[1]] = value
    if args.out.id == args.tensor("cache").id:
        return cache
    return np.zeros(args.out.maximum, args.out.dtype.numpy)


register(
    "sdpa_with_kv_cache.default",
    WITH_CACHE,
    shape=with_cache_shape,
    lower=lambda args: lower_cached(args, fresh=True),
    bounds=lambda args: cached_bounds(args, fresh=True),
    reference=lambda args: run_cached(args, fresh=True),
    mutates=("k_cache", "v_cache"),
)

register(
    "custom_sdpa.default",
    CACHE_ONLY,
    shape=cached_shape,
    lower=lambda args: lower_cached(args, fresh=False),
    bounds=lambda args: cached_bounds(args, fresh=False),
    reference=lambda args: run_cached(args, fresh=False),
)

register(
    "update_cache.default",
    UPDATE,
    shape=update_shape,
    lower=lower_cache_update,
    bounds=update_bounds,
    reference=run_update,
    mutates=("cache",),
)

register(
    "et_vk.sdpa.default",
    PLAIN,
    shape=plain_shape,
    lower=lower_plain,
    reference=run_plain,
)
