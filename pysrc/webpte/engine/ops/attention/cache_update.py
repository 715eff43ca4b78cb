"""Writes to a KV cache at given positions, and copies of a cache with such writes.

    update_cache_with_indices      cache[b, indices[b, s]] = value[b, s], in place, for ring caches;
                                   its output has no meaning
    webpte.updated_cache           a copy of the cache, with `value` from the position on
    webpte.updated_cache_with_indices
                                   a copy of the cache, with `value` at the indices

value [B, S, heads, D], cache [B, C, heads, D], indices [B, S]. Of several values for the same place
the last stays. A cache that is written from a position on may be packed (cache_packing.py).
Portable kernels become the `webpte.` operators on the GPU, where a buffer is a value; resident.py
turns them into writes in place if the buffer stays on the GPU.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.attention.attention import lower_cache_update, update_bounds, write_rows
from webpte.engine.ops.attention.attention_calls import update_shape
from webpte.engine.ops.attention.cache_write_kernels import update_unit
from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import quad_grid
from webpte.engine.ops.core.records import Dispatch, ceil_div, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.move.view import BYTES_PER_QUAD
from webpte.engine.shapes import Dims
from webpte.errors import GraphError, IndexRangeError, UnsupportedError

Array = np.ndarray

AT_POSITION, AT_INDICES = (
    "webpte.updated_cache.default",
    "webpte.updated_cache_with_indices.default",
)
# The operators that write to the cache in place: the same arguments, and a dummy output.
IN_PLACE = {
    AT_POSITION: "update_cache.default",
    AT_INDICES: "update_cache_with_indices.default",
}
POSITION = "value: tensor, cache: tensor, input_pos: live -> tensor"
INDICES = "value: tensor, cache: tensor, start_pos: any, indices: tensor -> tensor"


def check_update(args: Args) -> tuple[TensorArg, TensorArg]:
    update_shape(args)
    return args.tensor("value"), args.tensor("cache")


def check_places(args: Args) -> tuple[TensorArg, TensorArg, TensorArg]:
    (value, cache), indices = check_update(args), args.tensor("indices")
    if cache.dtype.packing is not None:
        raise UnsupportedError(f"{args.call}: a packed cache; it is written from a position on")
    if indices.dtype.stored != "int32" or indices.dims != value.dims[:2]:
        raise GraphError(
            f"{args.call}: indices {indices.dtype.name} {list(indices.dims)}; expected are int64 "
            f"or int32 [batch, tokens], which is {list(value.dims[:2])}"
        )
    return value, cache, indices


def updated_shape(args: Args, indexed: bool) -> tuple[Dims]:
    _, cache, *_ = check_places(args) if indexed else check_update(args)
    return (cache.dims,)


def in_place_shape(args: Args) -> tuple[Dims]:
    check_places(args)
    return (args.out.maximum,)


# Lowering


def lower_indexed(args: Args, target: TensorArg) -> list[Dispatch]:
    """Write the values into `target`, which has the dims of the cache."""
    value, _, indices = check_places(args)
    if value.numel == 0:
        return []
    batch, tokens, heads, size = value.dims
    itemsize = value.dtype.storage.itemsize
    unit, moved = update_unit(heads * size * itemsize, itemsize)
    row = heads * size * itemsize // unit
    flag = args.index_flag((indices, target.dims[1]))
    return [
        Dispatch(
            kernel="attention_cache_scatter",
            bindings=(value.id, indices.id, target.id, flag),
            params=pack("4Ii", batch * tokens * row, tokens, row, flag.number, target.dims[1]),
            grid=quad_grid(batch * tokens * row),
            types=(("UNIT", moved),),
        )
    ]


def lower_updated(args: Args, indexed: bool) -> list[Dispatch]:
    _, cache = check_update(args)
    out = args.out
    if out.dtype.stored != cache.dtype.stored:
        raise UnsupportedError(f"{args.call}: a cache of {cache.dtype.name} as {out.dtype.name}")
    quads = ceil_div(out.numel * out.dtype.storage.itemsize, BYTES_PER_QUAD)
    if quads == 0:
        return []
    copy = Dispatch("view", (cache.id, out.id), pack("I", quads), quad_grid(quads))
    return [copy, *(lower_indexed if indexed else lower_cache_update)(args, out)]


# References


def write_at(args: Args, cache: Array) -> Array:
    value, places = args.array("value"), args.array("indices")
    size = cache.shape[1]
    if places.size and not (-size <= places.min() and places.max() < size):
        raise IndexRangeError(
            f"{args.call}: indices from {places.min()} to {places.max()} are out of bounds for "
            f"{size} cache positions"
        )
    for token in range(value.shape[1]):  # in order, so that the last value stays
        cache[np.arange(len(cache)), places[:, token]] = value[:, token]
    return cache


def run_updated(args: Args, indexed: bool) -> Array:
    cache = args.array("cache").copy()
    if indexed:
        return write_at(args, cache)
    write_rows(args, "value", "cache", cache)
    return cache


def run_in_place(args: Args) -> Array:
    write_at(args, args.array("cache"))
    return np.zeros(args.out.maximum, args.out.dtype.numpy)


register(
    "update_cache_with_indices.default",
    INDICES,
    shape=in_place_shape,
    lower=lambda args: lower_indexed(args, args.tensor("cache")),
    reference=run_in_place,
    mutates=("cache",),
)
register(
    AT_POSITION,
    POSITION,
    shape=lambda args: updated_shape(args, indexed=False),
    lower=lambda args: lower_updated(args, indexed=False),
    bounds=update_bounds,
    reference=lambda args: run_updated(args, indexed=False),
)
register(
    AT_INDICES,
    INDICES,
    shape=lambda args: updated_shape(args, indexed=True),
    lower=lambda args: lower_updated(args, indexed=True),
    reference=lambda args: run_updated(args, indexed=True),
)
