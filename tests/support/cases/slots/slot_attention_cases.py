"""Cases of attention of rows of several sequences, each with a slot of the caches."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from support.cases.attention.attention_programs import randoms, softmax_attention
from support.cases.cases import Array
from support.cases.live_cases import LiveCase

SLOT_ATTENTION, SLOT_SDPA = "webpte.slot_attention.default", "webpte.slot_sdpa.default"
NO_SLOT = -1

Place = tuple[int, int]  # position and slot


def places_of(rows: Sequence[Place]) -> Array:
    places = np.zeros((len(rows), 4), np.int32)
    places[:, :2] = rows
    return places


def slot_attention(
    heads: int,
    key_heads: int,
    size: int,
    steps: Sequence[Sequence[Place]],
    *,
    slots: int = 3,
    positions: int = 32,
    scale: float | None = None,
    window: int = 0,
    cap: float | None = None,
    writes: bool = False,
    label: str = "",
) -> LiveCase:
    """A call for each of the steps, which are lists of rows; `writes`: with new keys and values."""
    rng = np.random.default_rng(heads * 100 + size)
    keys, values = (randoms(rng, slots, positions, key_heads, size) for _ in range(2))
    more = (scale, window, cap)
    calls = [
        (
            randoms(rng, 1, len(rows), heads, size),
            *(randoms(rng, 1, len(rows), key_heads, size) for _ in range(2 * writes)),
            *(keys, values, places_of(rows), *more),
        )
        for rows in steps
    ]

    def expect(q: Array, *given: Array) -> Array:
        *new, k, v, places = (x for x in given if isinstance(x, np.ndarray))
        out = np.zeros(q.shape)
        k, v = k.copy(), v.copy()
        for fresh, cache in zip(new, (k, v), strict=False):
            for row, (position, slot) in enumerate(places[:, :2]):
                if slot != NO_SLOT:
                    cache[slot, position] = fresh[0, row]
        for row, (position, slot) in enumerate(places[:, :2]):
            if slot == NO_SLOT:
                continue
            first = max(0, position + 1 - window) if window else 0
            own = q[:, row : row + 1].transpose(0, 2, 1, 3)
            k_own, v_own = (
                x[slot : slot + 1, first : position + 1].transpose(0, 2, 1, 3) for x in (k, v)
            )
            hidden = np.zeros((1, heads, 1, k_own.shape[2]), np.bool_)
            factor = 1 / math.sqrt(size) if scale is None else scale
            found = softmax_attention(own, k_own, v_own, factor, hidden, np.array(0.0), cap)
            out[:, row] = found.transpose(0, 2, 1, 3)[:, 0]
        return out

    op = SLOT_SDPA if writes else SLOT_ATTENTION
    return LiveCase(op, calls, expect, label=label, rtol=1e-4, exact=False)


MIXED = [(0, 0), (31, 1), (7, 2), (8, 2), (9, 2), (0, NO_SLOT)]

SLOT_ATTENTION_CASES = [
    slot_attention(1, 1, 1, [[(0, 0)], [(3, 1)]], label="all ones"),
    slot_attention(4, 2, 16, [MIXED, [(5, 0)], [(0, NO_SLOT)], MIXED[::-1]], label="mixed"),
    slot_attention(4, 4, 6, [MIXED], label="odd quads"),
    slot_attention(6, 3, 33, [MIXED], label="odd heads"),
    slot_attention(10, 1, 8, [MIXED], label="more heads than rows of a tile"),
    slot_attention(8, 2, 64, [[(999, 0), (3, 1), (640, 2)]], positions=1000, label="splits"),
    slot_attention(2, 1, 260, [MIXED], label="large heads"),
    slot_attention(4, 2, 16, [MIXED], window=4, cap=2.5, label="window"),
    slot_attention(4, 2, 16, [[(999, 0), (3, 1)]], positions=1000, window=77, label="long"),
    slot_attention(4, 2, 16, [MIXED], scale=0.3, label="scale"),
    slot_attention(4, 2, 16, [MIXED, [(5, 0)]], writes=True, label="new keys"),
    slot_attention(6, 3, 5, [MIXED], writes=True, window=4, label="new keys, odd"),
]
