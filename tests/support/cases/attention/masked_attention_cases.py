"""Cases of attention that a mask alone limits, with tokens before heads."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.cases.attention.attention_programs import ATOL, RTOL, randoms, softmax_attention
from support.cases.cases import Array
from support.cases.row_cases import RowCase

OP = "et_vk.gemma4_sdpa.default"


def attention(q: Array, k: Array, v: Array, start: int, mask: Array, *rest: Any) -> Array:
    scale = 1 / np.sqrt(q.shape[-1]) if rest[2] is None else rest[2]
    hidden = np.broadcast_to(np.isneginf(mask), (*q.shape[:1], q.shape[2], *mask.shape))
    q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    added = np.where(np.isneginf(mask), 0, mask)
    return softmax_attention(q, k, v, scale, hidden, added).swapaxes(1, 2)


def arrays(batch: int, tokens: int, keys: int, heads: tuple[int, int], size: int) -> list[Array]:
    rng = np.random.default_rng(tokens + 7 * keys)
    visible = rng.random((tokens, keys)) < 0.6
    visible[:, :1] = True  # torch gives NaN for a query without keys
    mask = np.where(visible, randoms(rng, tokens, keys), -np.inf).astype(np.float32)
    shapes = ((batch, tokens, heads[0], size), *((batch, keys, heads[1], size),) * 2)
    return [*(randoms(rng, *shape) for shape in shapes), mask]


def case(
    batch: int,
    tokens: int,
    keys: int,
    heads: tuple[int, int],
    size: int,
    *live: tuple[int, int],
    scale: float | None = 1.0,
) -> RowCase:
    q, k, v, mask = arrays(batch, tokens, keys, heads, size)
    later = tuple(tuple(arrays(batch, *sizes, heads, size)) for sizes in live)
    args = (q, k, v, 3, mask, 0.0, False, scale)
    return RowCase(OP, args, attention, live=later, rtol=RTOL, atol=ATOL)


MASKED_ATTENTION_CASES = [
    case(1, 1, 1, (1, 1), 1),
    case(1, 5, 9, (4, 2), 16),
    case(2, 7, 13, (3, 1), 6),
    case(1, 67, 97, (4, 4), 8),
    case(1, 1, 700, (8, 1), 33),
    case(1, 3, 11, (2, 1), 256),
    case(1, 5, 9, (2, 2), 12, scale=None),
    case(1, 5, 9, (2, 2), 12, scale=0.25),
    case(1, 40, 41, (4, 2), 7, (1, 3), (7, 41), (40, 2), (1, 1)),
]
