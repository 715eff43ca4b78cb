"""Attention of rows that belong to several sequences, each with a slot of the KV caches.

    webpte.slot_attention.default(query, k_cache, v_cache, places, scale, window, soft_cap)
    webpte.slot_sdpa.default(query, key, value, k_cache, v_cache, places, scale, window, soft_cap)

  query    [1, R, heads, D]: a row for each token of a call, of any sequence
  key, value  [1, R, key heads, D]: written to the caches first
  caches   [slots, C, key heads, D], packed or not, with the keys and values of these rows
  places   int32 [R, 4]: position and slot of each row, see slot_cache.py

A row attends to the keys of its slot up to its own position, as a causal `custom_sdpa` of a single
token does; the result of padding is zero. All rows are one or two dispatches: workgroups are spread
over rows, key heads and shares of the keys. An operator of webpte's own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from webpte.engine.ops.attention.attention import attend, stored_as
from webpte.engine.ops.attention.attention_calls import (
    cache_heads,
    heads_fit,
    read_scale,
    tokens_first,
)
from webpte.engine.ops.attention.attention_kernels import (
    MAX_SPLIT_HEAD,
    Attention,
    lower_split,
    overrides,
    pack_params,
)
from webpte.engine.ops.attention.cache_packing import packing_of, unpack_rows
from webpte.engine.ops.attention.cache_write_kernels import Heads
from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import quad_grid
from webpte.engine.ops.core.records import Dispatch, ceil_div
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.slots.slot_cache import check_places, check_rows, lower_rows, write_rows
from webpte.engine.shapes import Dims
from webpte.errors import GraphError

Array = np.ndarray

SLOT_ATTENTION, SLOT_SDPA = "webpte.slot_attention.default", "webpte.slot_sdpa.default"
REST = (
    "k_cache: tensor, v_cache: tensor, places: tensor, scale: number? = None, window: int = 0, "
    "soft_cap: number? = None -> tensor"
)
WRITTEN = (("key", "k_cache"), ("value", "v_cache"))


def attention_shape(args: Args) -> tuple[Dims]:
    q, keys, values = (args.tensor(name) for name in ("query", "k_cache", "v_cache"))
    if not heads_fit(args, q, keys, values) or q.dims[0] != 1:
        raise GraphError(
            f"{args.call}: queries {list(q.dims)} with keys {list(keys.dims)} and values "
            f"{list(values.dims)}; expected are [1, rows, heads, head size] and twice "
            "[slots, positions, key heads, head size], with a multiple of the key heads as heads"
        )
    check_places(args, q.dims[1])
    return (q.dims,)


def sdpa_shape(args: Args) -> tuple[Dims]:
    shape = attention_shape(args)
    for new, cache in WRITTEN:
        check_rows(args, args.tensor(new), args.tensor(cache))
    return shape


def read_slots(args: Args) -> Attention:
    """Return the call as attention of a batch of single tokens."""
    q, keys, values = (args.tensor(name) for name in ("query", "k_cache", "v_cache"))
    _, rows, heads, size = q.dims
    each = (rows, 1, heads, size)
    return Attention(
        q=tokens_first(q.with_dims(each)),
        k=cache_heads(keys, size),
        v=cache_heads(values, size),
        packing=packing_of(keys.dtype),
        out=tokens_first(args.out.with_dims(each)),
        keys=1,
        follows=True,
        causal=True,
        scale=read_scale(args, size),
        window=args.integer("window"),
        cap=float(args.optional_number("soft_cap") or 0),
        position=args.tensor("places").id,
        mask=None,
    )


def lower_slots(args: Args) -> list[Dispatch]:
    call = stored_as(args, read_slots(args), "query", "k_cache", "v_cache")
    call = replace(call, target=args.target)
    if args.out.numel == 0:
        return []
    if args.target.software or not fits_split(call):
        return [lower_simple(call)]
    return lower_split(call, None, "slot_attention", (call.q.id,))


def fits_split(call: Attention) -> bool:
    """Return whether the kernel that splits keys takes heads of this size."""
    return call.q.sizes[3] <= MAX_SPLIT_HEAD


def lower_sdpa(args: Args) -> list[Dispatch]:
    written = [lower_rows(args, args.tensor(new), args.tensor(cache)) for new, cache in WRITTEN]
    return [*(dispatch for one in written for dispatch in one), *lower_slots(args)]


def lower_simple(call: Attention) -> Dispatch:
    lines = call.out.sizes[0] * call.out.sizes[1]
    return Dispatch(
        kernel="slot_attention_simple",
        bindings=(call.q.id, call.k.id, call.v.id, None, call.out.id, call.position),
        params=pack_params(call, lines=(0, lines, 0)),
        grid=quad_grid(lines),
        types=(
            ("FLOAT", call.stored),
            ("CACHE_FORMAT", call.cache_format),
            ("MASK_TYPE", call.mask_type),
            ("VALUE_QUADS", str(ceil_div(call.v.sizes[3], 4))),
        ),
        overrides=overrides(call),
    )


def run_slots(args: Args) -> Array:
    call, q = read_slots(args), args.array("query")
    keys, values = args.array("k_cache"), args.array("v_cache")
    out = np.zeros(q.shape, q.dtype)
    for row, (position, slot) in enumerate(args.array("places")[:, :2]):
        if slot < 0:
            continue
        first = max(0, position + 1 - call.window) if call.window else 0
        held = [cache[slot : slot + 1, first : position + 1] for cache in (keys, values)]
        if call.packing is not None:
            held = [unpack_rows(words, q.shape[-1], call.packing) for words in held]
        k, v = (x.transpose(0, 2, 1, 3) for x in held)
        own = q[:, row : row + 1].transpose(0, 2, 1, 3)
        one = replace(call, out=Heads(call.out.id, own.shape, call.out.strides))
        seen, added = np.array(True), np.array(0.0)
        out[:, row] = attend(own, k, v, one, seen, added).transpose(0, 2, 1, 3)[:, 0]
    return out


def run_sdpa(args: Args) -> Array:
    for new, cache in WRITTEN:
        write_rows(args, new, cache)
    return run_slots(args)


register(
    SLOT_ATTENTION,
    f"query: tensor, {REST}",
    shape=attention_shape,
    lower=lower_slots,
    reference=run_slots,
)
register(
    SLOT_SDPA,
    f"query: tensor, key: tensor, value: tensor, {REST}",
    shape=sdpa_shape,
    lower=lower_sdpa,
    reference=run_sdpa,
    mutates=("k_cache", "v_cache"),
)
