"""Writes rows of several sequences to their slots of the KV caches.

    webpte.update_slots.default(value, cache, places)    cache[slot, position] = value[0, row]
    webpte.slot_tokens.default(given, history, places)   the token of each row -> out (int) [1, R]

  value    [1, R, heads, D]: a row for each token of a call
  cache    [slots, C, heads, D], packed or not
  places   int32 [R, 4]: position and slot of each row, and two zeros. Rows with a negative slot are
           padding, which is not written
  given    int32 or int64 [1, R]: a token, or -1 for the history's token at the row's place
  history  int32 [slots, C', 1, 1]: the tokens of each sequence. Given tokens are written to the
           history

All rows of a call have different places. A place outside of the cache is not written. The output
of `update_slots` has no meaning. Operators of webpte's own, see llm/decode/batched_graph.py.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.attention.attention_calls import cache_row
from webpte.engine.ops.attention.cache_packing import pack_rows, packing_of
from webpte.engine.ops.attention.cache_write_kernels import update_unit
from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import QUAD, float_type, quad_grid
from webpte.engine.ops.core.records import Dispatch, ceil_div, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import check_floats
from webpte.engine.shapes import Dims
from webpte.errors import GraphError

Array = np.ndarray

UPDATE_SLOTS, SLOT_TOKENS = "webpte.update_slots.default", "webpte.slot_tokens.default"
PLACE_WORDS = 4  # position, slot, and two zeros: a vec4 of the shaders
NO_SLOT = -1  # slot of a padding row
KNOWN_BY_HISTORY = -1  # a row without a given token


def check_places(args: Args, rows: int) -> TensorArg:
    """Return the places of a call's rows, after a check."""
    places = args.tensor("places")
    if places.dtype.stored != "int32" or places.dims != (rows, PLACE_WORDS):
        raise GraphError(
            f"{args.call}: places {places.dtype.name} {list(places.dims)}; expected are int32 "
            f"[rows, {PLACE_WORDS}], which is {[rows, PLACE_WORDS]}"
        )
    return places


def check_rows(args: Args, value: TensorArg, cache: TensorArg) -> None:
    """Check that rows fit a cache, and that each has a place."""
    row = cache_row(cache, value.dims)
    if value.rank != 4 or cache.rank != 4 or value.dims[0] != 1 or row[2:] != cache.dims[2:]:
        raise GraphError(
            f"{args.call}: rows {list(value.dims)} into a cache {list(cache.dims)}; expected are "
            "[1, rows, heads, head size] and [slots, positions, heads, head size]"
        )
    if cache.dtype.packing is not None:
        check_floats(args, value)
    elif value.dtype.stored != cache.dtype.stored:
        raise GraphError(
            f"{args.call}: {value.dtype.name} values into a cache of {cache.dtype.name}"
        )
    check_places(args, value.dims[1])


def update_shape(args: Args) -> tuple[Dims]:
    check_rows(args, args.tensor("value"), args.tensor("cache"))
    return (args.out.maximum,)


def tokens_shape(args: Args) -> tuple[Dims]:
    given, history = args.tensor("given"), args.tensor("history")
    if given.rank != 2 or given.dims[0] != 1 or history.rank != 4 or history.dims[2:] != (1, 1):
        raise GraphError(
            f"{args.call}: tokens {list(given.dims)} and a history {list(history.dims)}; expected "
            "are [1, rows] and [slots, positions, 1, 1]"
        )
    if any(tensor.dtype.stored != "int32" for tensor in (given, history, args.out)):
        raise GraphError(f"{args.call}: tokens are int32 or int64")
    check_places(args, given.dims[1])
    return (given.dims,)


# Lowering


def lower_rows(args: Args, value: TensorArg, cache: TensorArg) -> list[Dispatch]:
    """Return the dispatch that writes rows to a cache."""
    places = args.tensor("places")
    if value.numel == 0:
        return []
    _, rows, heads, size = value.dims
    slots, positions = cache.dims[:2]
    packing = packing_of(cache.dtype)
    bindings = (value.id, places.id, cache.id)
    if packing is not None:
        quads = ceil_div(size, QUAD)
        return [
            Dispatch(
                kernel="slot_cache_pack",
                bindings=bindings,
                params=pack("4I2i", rows * heads * quads, quads, heads, size, slots, positions),
                grid=quad_grid(rows * heads * quads),
                types=(("FLOAT", float_type(args, value)), ("CACHE_FORMAT", packing.wgsl)),
            )
        ]
    itemsize = cache.dtype.storage.itemsize
    unit, moved = update_unit(heads * size * itemsize, itemsize)
    row = heads * size * itemsize // unit
    return [
        Dispatch(
            kernel="slot_cache",
            bindings=bindings,
            params=pack("2I2i", rows * row, row, slots, positions),
            grid=quad_grid(rows * row),
            types=(("UNIT", moved),),
        )
    ]


def lower_tokens(args: Args) -> list[Dispatch]:
    given, history = args.tensor("given"), args.tensor("history")
    rows = given.dims[1]
    if rows == 0:
        return []
    return [
        Dispatch(
            kernel="slot_cache_tokens",
            bindings=(given.id, args.tensor("places").id, history.id, args.out.id),
            params=pack("I2i", rows, *history.dims[:2]),
            grid=quad_grid(rows),
        )
    ]


# References


def inside(places: Array, cache: Array) -> tuple[Array, Array, Array]:
    """Return the rows with places inside a cache, and their slots and positions."""
    positions, slots = places[:, 0], places[:, 1]
    fits = (slots >= 0) & (slots < cache.shape[0]) & (positions >= 0)
    (rows,) = np.nonzero(fits & (positions < cache.shape[1]))
    return rows, slots[rows], positions[rows]


def write_rows(args: Args, new: str, cache: str) -> None:
    """Write rows to a cache, packed if the cache is; `new` and `cache` name the arguments."""
    value, held = args.array(new)[0], args.array(cache)
    packing = packing_of(args.tensor(cache).dtype)
    rows, slots, positions = inside(args.array("places"), held)
    own = value[rows]
    held[slots, positions] = own if packing is None else pack_rows(own, packing)


def run_update(args: Args) -> Array:
    write_rows(args, "value", "cache")
    return np.zeros(args.out.maximum, args.out.dtype.numpy)


def run_tokens(args: Args) -> Array:
    given, history = args.array("given").copy(), args.array("history")
    rows, slots, positions = inside(args.array("places"), history)
    is_given = given[0, rows] != KNOWN_BY_HISTORY
    at = slots[is_given], positions[is_given], 0, 0
    history[at] = given[0, rows[is_given]]
    tokens = np.zeros_like(given)
    tokens[0, rows] = history[slots, positions, 0, 0]
    return tokens


register(
    UPDATE_SLOTS,
    "value: tensor, cache: tensor, places: tensor -> tensor",
    shape=update_shape,
    lower=lambda args: lower_rows(args, args.tensor("value"), args.tensor("cache")),
    reference=run_update,
    mutates=("cache",),
)
register(
    SLOT_TOKENS,
    "given: tensor, history: tensor, places: tensor -> tensor",
    shape=tokens_shape,
    lower=lower_tokens,
    reference=run_tokens,
    mutates=("history",),
)
