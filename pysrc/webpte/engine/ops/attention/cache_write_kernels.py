"""Lowers the write of new keys or values into a KV cache, unpacked or packed."""

from __future__ import annotations

from dataclasses import dataclass

from webpte.engine.ops.attention.cache_packing import CachePacking
from webpte.engine.ops.core.quads import QUAD, quad_grid
from webpte.engine.ops.core.records import Dispatch, Scratch, SymIntUniform, ceil_div, pack
from webpte.engine.shapes import Dims
from webpte.errors import UnsupportedError

Strides = tuple[int, int, int]  # between batches, heads and tokens; elements are neighbours
Position = SymIntUniform | bytes | int  # int: id of a tensor with a position for each batch

UPDATE_UNITS = ((16, "vec4<u32>"), (4, "u32"), (2, "f16"))  # bytes and WGSL type


@dataclass(frozen=True)
class Heads:
    """A tensor, or scratch memory, as [batch, head, token, element]."""

    id: int | Scratch
    sizes: Dims
    strides: Strides


def update_unit(nbytes: int, itemsize: int) -> tuple[int, str]:
    """Return the widest unit that divides a position's bytes, and its WGSL type."""
    if nbytes % 4 and itemsize != 2:
        raise UnsupportedError(
            f"a cache with {nbytes} bytes to a position; whole words of 4 bytes are supported"
        )
    return next(choice for choice in UPDATE_UNITS if nbytes % choice[0] == 0)


def lower_update(new: Heads, cache: Heads, itemsize: int, position: Position) -> Dispatch:
    """Copy new keys or values into a cache, in the widest unit that divides a position."""
    batch, heads, tokens, size = new.sizes
    if itemsize == 1 and heads * size % 4:
        return lower_bytes(new, cache, position)
    unit, moved = update_unit(heads * size * itemsize, itemsize)
    row = heads * size * itemsize // unit
    units = batch * tokens * row
    return Dispatch(
        kernel="attention_cache_update",
        bindings=(new.id, cache.id, position),
        params=pack("4I", units, tokens * row, row, cache.sizes[2] * row),
        grid=quad_grid(units),
        types=(("UNIT", moved),),
    )


def lower_bytes(new: Heads, cache: Heads, position: Position) -> Dispatch:
    """Copy new rows of bytes into a cache whose positions are not a multiple of four bytes."""
    batch, heads, tokens, size = new.sizes
    positions, row = cache.sizes[2], heads * size
    words = ceil_div(batch * positions * row, 4)
    return Dispatch(
        kernel="attention_cache_update_bytes",
        bindings=(new.id, cache.id, position),
        params=pack("4I", words, row, positions, tokens),
        grid=quad_grid(words),
    )


def lower_packing(
    new: Heads, cache: Heads, packing: CachePacking, stored: str, position: Position
) -> Dispatch:
    """Pack new keys or values into a cache."""
    batch, heads, tokens, size = new.sizes
    row = ceil_div(size, QUAD)
    quads = batch * tokens * heads * row
    return Dispatch(
        kernel="attention_cache_pack",
        bindings=(new.id, cache.id, position),
        params=pack("6I", quads, row, tokens * heads, heads, cache.sizes[2] * heads, size),
        grid=quad_grid(quads),
        types=(("FLOAT", stored), ("CACHE_FORMAT", packing.wgsl)),
    )
