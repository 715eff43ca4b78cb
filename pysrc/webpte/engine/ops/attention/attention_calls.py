"""Read the calls of the attention ops as `Attention` records, and check their shapes."""

from __future__ import annotations

import math
from dataclasses import replace

from webpte.engine.ops.attention.attention_kernels import Attention, Mask
from webpte.engine.ops.attention.cache_packing import packing_of
from webpte.engine.ops.attention.cache_write_kernels import Heads
from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.records import pack
from webpte.engine.ops.core.row_reduction import check_floats
from webpte.engine.shapes import Dims, broadcast, broadcast_strides, contiguous_strides, numel
from webpte.errors import GraphError, UnsupportedError

# Shapes


def check_new(args: Args, what: str, new: TensorArg, cache: TensorArg) -> None:
    """Check that new keys or values [B, S, H, D] fit a cache [B, C, H, D], packed or not."""
    if new.rank != 4 or cache.rank != 4 or cache_row(cache, new.dims)[2:] != cache.dims[2:]:
        raise GraphError(
            f"{args.call}: {what} {list(new.dims)} into a cache {list(cache.dims)}; "
            "both are [batch, positions, heads, head size] of equal heads and head sizes"
        )
    if new.dims[0] != cache.dims[0]:
        raise GraphError(
            f"{args.call}: a batch of {new.dims[0]} in {what}, of {cache.dims[0]} in the cache"
        )


def masked_shape(args: Args) -> tuple[Dims]:
    q, keys, mask = args.tensor("query"), args.tensor("key"), args.tensor("attn_mask")
    shape = check_heads(args, q, keys, args.tensor("value"))
    if mask.dims != (q.dims[1], keys.dims[1]):
        raise GraphError(
            f"{args.call}: a mask {list(mask.dims)}; expected is [tokens, keys], which is "
            f"{[q.dims[1], keys.dims[1]]}"
        )
    return (shape,)


def cache_row(cache: TensorArg, dims: Dims) -> Dims:
    """Return dims as a cache stores them: the last dim counts words if the cache is packed."""
    packing = packing_of(cache.dtype)
    return dims if packing is None else packing.packed_dims(dims)


def cached_shape(args: Args) -> tuple[Dims]:
    q, keys, values = args.tensor("query"), args.tensor("k_cache"), args.tensor("v_cache")
    shape = check_heads(args, q, keys, values)
    if keys.id == values.id:
        raise GraphError(f"{args.call}: keys and values share the cache value {keys.id}")
    return (shape,)


def heads_fit(args: Args, q: TensorArg, keys: TensorArg, values: TensorArg) -> bool:
    """Return whether queries have the heads and head size of keys and values, all floats."""
    check_floats(args, q, *(cache for cache in (keys, values) if cache.dtype.packing is None))
    return (
        q.rank == keys.rank == 4
        and keys.dims == values.dims
        and keys.dtype.packing == values.dtype.packing
        and cache_row(keys, q.dims)[3] == keys.dims[3]
        and keys.dims[2] > 0
        and q.dims[2] % keys.dims[2] == 0
    )


def check_heads(args: Args, q: TensorArg, keys: TensorArg, values: TensorArg) -> Dims:
    """Check queries, keys and values with tokens before heads; return the dims of the output.

    Keys and values may be packed caches.
    """
    if not heads_fit(args, q, keys, values) or q.dims[0] != keys.dims[0]:
        raise GraphError(
            f"{args.call}: queries {list(q.dims)} with keys {list(keys.dims)} and values "
            f"{list(values.dims)}; expected are [batch, tokens, heads, head size] and twice "
            "[batch, positions, key heads, head size], with a multiple of the key heads as heads"
        )
    return q.dims


def with_cache_shape(args: Args) -> tuple[Dims]:
    shape = cached_shape(args)
    tokens = args.tensor("query").dims[1]
    for what, cache in (("key", "k_cache"), ("value", "v_cache")):
        new = args.tensor(what)
        check_floats(args, new)
        check_new(args, what, new, args.tensor(cache))
        if new.dims[1] != tokens:
            raise GraphError(f"{args.call}: {tokens} queries, but {new.dims[1]} in {what}")
    return shape


def update_shape(args: Args) -> tuple[Dims]:
    value, cache = args.tensor("value"), args.tensor("cache")
    check_new(args, "value", value, cache)
    if cache.dtype.packing is not None:
        check_floats(args, value)
    elif value.dtype.stored != cache.dtype.stored:
        raise GraphError(
            f"{args.call}: {value.dtype.name} values into a cache of {cache.dtype.name}"
        )
    return (args.out.maximum,)


def head_count(tensor: TensorArg) -> int:
    return (1, *tensor.dims)[-3]


def plain_shape(args: Args) -> tuple[Dims]:
    """Broadcast all dims but the last two, as matmul does; heads may also share key heads."""
    q, k, v = args.tensor("query"), args.tensor("key"), args.tensor("value")
    check_floats(args, q, k, v)
    if min(q.rank, k.rank, v.rank) < 2 or q.dims[-1] != k.dims[-1] or k.dims[-2] != v.dims[-2]:
        raise GraphError(
            f"{args.call}: queries {list(q.dims)}, keys {list(k.dims)}, values {list(v.dims)}; "
            "expected are [.., tokens, size], [.., keys, size] and [.., keys, value size]"
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
    """Return the strides of [.., heads, tokens, size]; a batch or heads of 1 broadcast."""
    sizes = (numel(tensor.dims[:-3]), *(1, *tensor.dims)[-3:])
    batch, head, token, _ = contiguous_strides(sizes)
    return Heads(
        tensor.id, sizes, (batch if sizes[0] > 1 else 0, head if sizes[1] > 1 else 0, token)
    )


def tokens_first(tensor: TensorArg) -> Heads:
    """Return the strides of [batch, tokens, heads, size]."""
    batch, tokens, heads, size = tensor.dims
    steps = contiguous_strides(tensor.dims)
    return Heads(tensor.id, (batch, heads, tokens, size), (steps[0], steps[2], steps[1]))


def cache_heads(cache: TensorArg, size: int) -> Heads:
    """Return a cache with rows of `size` elements; strides of a packed cache count units."""
    packing = packing_of(cache.dtype)
    if packing is None:
        return tokens_first(cache)
    batch, positions, heads, _ = cache.dims
    steps = contiguous_strides((batch, positions, heads, packing.units(size)))
    return Heads(cache.id, (batch, heads, positions, size), (steps[0], steps[2], steps[1]))


def read_mask(args: Args, target: Dims, boolean: bool) -> Mask | None:
    """Return the mask, broadcast to `target` = [batch, heads, tokens, keys]."""
    tensor = args.optional_tensor("attn_mask")
    if tensor is None:
        return None
    # Batch dims are counted as a single dim, so a mask must have all of them or none.
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
    """Return the number of keys in the mask; None without a mask, or if one column is for all."""
    mask = args.optional_tensor("attn_mask")
    keys = mask.dims[-1] if mask is not None and mask.rank else 1
    if mask is None or (keys == 1 and positions != 1):
        return None
    if keys > positions:
        raise GraphError(f"{args.call}: a mask for {keys} keys, but {positions} positions")
    return keys


def check_no_dropout(args: Args) -> None:
    if args.optional_number("dropout_p"):
        raise UnsupportedError(f"{args.call}: dropout; only dropout_p 0 is supported")


def read_masked(args: Args) -> Attention:
    """Return the attention to keys and values of any length, selected by the mask alone."""
    check_no_dropout(args)
    if args.flag("is_causal"):
        raise UnsupportedError(f"{args.call}: is_causal; its mask alone can hide keys")
    queries, keys = tokens_first(args.tensor("query")), tokens_first(args.tensor("key"))
    return Attention(
        q=queries,
        k=keys,
        v=tokens_first(args.tensor("value")),
        out=Heads(args.out.id, queries.sizes, queries.strides),
        keys=keys.sizes[2],
        follows=False,
        causal=False,
        scale=read_scale(args, queries.sizes[3]),
        position=pack("4i", 0, 0, 0, 0),
        mask=read_mask(args, (*queries.sizes[:3], keys.sizes[2]), boolean=False),
    )


def read_window(args: Args) -> int:
    """Return the window of causal attention; 0 means no window."""
    window = args.integer("window")
    if window < 0 or (window and not args.flag("is_causal")):
        raise GraphError(f"{args.call}: a window of {window} keys; it must be causal")
    return window


def read_attention(args: Args, queries: Heads, keys: Heads, values: Heads) -> Attention:
    """Return the attention to keys up to the last query's position, or to the keys of the mask."""
    check_no_dropout(args)
    tokens, positions = queries.sizes[2], keys.sizes[2]
    named = mask_keys(args, positions)
    return Attention(
        q=queries,
        k=keys,
        v=values,
        out=Heads(args.out.id, queries.sizes, queries.strides),
        keys=tokens if named is None else named,
        follows=named is None,
        causal=args.flag("is_causal"),
        scale=read_scale(args, queries.sizes[3]),
        position=args.uniform("input_pos"),
        mask=read_mask(args, (*queries.sizes[:3], named or positions), boolean=True),
    )


def read_cached(args: Args, writes: bool) -> Attention:
    q, keys, values = args.tensor("query"), args.tensor("k_cache"), args.tensor("v_cache")
    caches = (cache_heads(cache, q.dims[-1]) for cache in (keys, values))
    return replace(
        read_attention(args, tokens_first(q), *caches),
        packing=packing_of(keys.dtype),
        window=read_window(args),
        cap=float(args.optional_number("soft_cap") or 0),
        new=(tokens_first(args.tensor("key")), tokens_first(args.tensor("value")))
        if writes
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
