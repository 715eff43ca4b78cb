"""Hadamard transforms of rows: sums and differences of all elements.

    webpte.hadamard(x) -> out, x [.., N] with N = 2^n or 28 * 2^n

A row of 2^n elements keeps its length. A row of 28 * 2^n elements is 28 rows of 2^n elements, which
a Hadamard matrix of order 28 then mixes without dividing. An operator of webpte's own, for the
portable kernel of rotated weights (SpinQuant).

The kernel multiplies along a part of the row's index bits at a time, so that an element of 4,096
takes two sums of 64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import WORKGROUP_SIZE, float_type
from webpte.engine.ops.core.records import Binding, Dispatch, Scratch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import check_floats
from webpte.engine.shapes import Dims
from webpte.errors import GraphError

Array = np.ndarray

ORDER = 28
MOST_BITS = 6  # per sum: 64 terms
# Williamson's matrix of order 28: four circulants of order 7 in a fixed arrangement.
_WILLIAMSON = ("+------", "++----+", "+-+--+-", "+--++--")


def parts_of(size: int) -> tuple[int, int] | None:
    """Return the mixing matrix's order, 28 or 1, and the power of two; None for other lengths."""
    outer = ORDER if size % ORDER == 0 else 1
    inner = size // outer
    return None if size == 0 or inner & (inner - 1) else (outer, inner)


def hadamard_shape(args: Args) -> tuple[Dims]:
    x = args.tensor("x")
    check_floats(args, x)
    if x.rank and x.numel and parts_of(x.dims[-1]) is None:
        raise GraphError(f"{args.call}: rows of {x.dims[-1]} elements; 2^n or 28 * 2^n are needed")
    return (x.dims,)


def hadamard_28() -> Array:
    rows = [np.array([1.0 if sign == "+" else -1.0 for sign in text]) for text in _WILLIAMSON]
    a, b, c, d = (np.array([np.roll(row, shift) for shift in range(7)]) for row in rows)
    return np.block([[a, b, c, d], [-b, a, -d, c], [-c, d, a, -b], [-d, -c, b, a]])


def sign_words() -> list[int]:
    """Return the matrix of order 28 as bits, a word per row: 1 for a negative sign."""
    negative = hadamard_28() < 0
    return [sum(1 << int(column) for column in np.flatnonzero(row)) for row in negative]


def passes(outer: int, inner: int) -> Iterator[tuple[int, int, bool]]:
    """Yield the terms of each sum, their distance, and whether to use the order-28 matrix."""
    bits, done = inner.bit_length() - 1, 0
    while done < bits or (outer == 1 and bits == 0 and done == 0):
        taken = min(MOST_BITS, bits - done)
        yield 1 << taken, 1 << done, False
        done += max(taken, 1)
    if outer == ORDER:
        yield ORDER, inner, True


def lower_hadamard(args: Args) -> list[Dispatch]:
    x, out = args.tensor("x"), args.out
    if x.numel == 0:
        return []
    parts = parts_of(x.dims[-1] if x.rank else 1)
    assert parts is not None, "see the shape function"
    stored, found = float_type(args, x, out), list(passes(*parts))
    source: Binding = x.id
    dispatches = []
    for number, (terms, distance, mixes) in enumerate(found):
        last = number == len(found) - 1
        # Two scratch buffers take turns: no dispatch may read and write the same buffer.
        between = Scratch(f"hadamard_{number % 2}", 4 * ceil_div(x.numel, 4) * 4)
        target: Binding = out.id if last else between
        scale = 1 / math.sqrt(parts[1]) if number == 0 else 1.0
        dispatches.append(
            Dispatch(
                kernel="hadamard",
                bindings=(source, target),
                params=pack("3If28I", x.numel, terms, distance, scale, *sign_words()),
                grid=fold_grid(ceil_div(x.numel, WORKGROUP_SIZE)),
                types=(
                    ("IN", stored if number == 0 else "f32"),
                    ("OUT", stored if last else "f32"),
                ),
                overrides=(("MIXES", int(mixes)),),
            )
        )
        source = target
    return dispatches


def np_hadamard(x: Array) -> Array:
    """Compute in float64, and round each result once."""
    parts = parts_of(x.shape[-1]) if x.ndim and x.size else (1, 1)
    assert parts is not None, "see the shape function"
    outer, inner = parts
    result = x.astype(np.float64).reshape(-1, outer, inner)
    step = 1
    while step < inner:
        pairs = result.reshape(-1, outer, inner // (2 * step), 2, step)
        low, high = pairs[..., 0, :], pairs[..., 1, :]
        result = np.stack([low + high, low - high], axis=-2).reshape(-1, outer, inner)
        step *= 2
    if outer == ORDER:
        result = np.einsum("ij,rjk->rik", hadamard_28(), result)
    return (result / math.sqrt(inner)).reshape(x.shape).astype(x.dtype)


register(
    "webpte.hadamard.default",
    "x: tensor -> tensor",
    shape=hadamard_shape,
    lower=lower_hadamard,
    reference=lambda args: np_hadamard(args.array("x")),
)
