"""Cases of the gated delta rule: one state after the other, in float64."""

from __future__ import annotations

import numpy as np

from support.cases.cases import Array
from support.cases.row_cases import RowCase, normal

OP = "webpte.gated_delta_rule.default"


def delta_rule(
    q: Array, k: Array, v: Array, decay: Array, beta: Array, initial: Array
) -> tuple[Array, Array]:
    group = q.shape[1] // k.shape[1]
    out, final = np.zeros((*q.shape[:3], v.shape[3])), initial.copy()
    for b, h in np.ndindex(*k.shape[:2]):
        state = initial[b, h]
        for t in range(q.shape[2]):
            kept = np.atleast_1d(decay[b, h, t])[:, None] * state
            error = v[b, h, t] - kept.T @ k[b, h, t]
            state = kept + np.outer(k[b, h, t], beta[b, h, t] * error)
            for member in range(h * group, (h + 1) * group):
                out[b, member, t] = state.T @ q[b, member, t]
        final[b, h] = state
    return out, final


def arrays(sizes: tuple[int, ...], channels: bool) -> tuple[Array, ...]:
    """Return random inputs; sizes are batch, heads, states, tokens, keys, and the values' size."""
    batch, heads, states, tokens, keys, size = sizes
    rng = np.random.default_rng(tokens + keys)
    decay = (batch, states, tokens, *([keys] if channels else []))
    scale = 1 / np.sqrt(max(keys, 1))
    return (
        normal((batch, heads, tokens, keys), 1),
        normal((batch, states, tokens, keys), 2, float(scale)),
        normal((batch, states, tokens, size), 3),
        rng.uniform(0.3, 1, decay).astype(np.float32),
        rng.uniform(0, 1, (batch, states, tokens)).astype(np.float32),
        normal((batch, states, keys, size), 4),
    )


def case(*sizes: int, channels: bool = False, live: tuple[int, ...] = ()) -> RowCase:
    given = arrays(sizes, channels)
    steps = tuple(arrays((*sizes[:3], tokens, *sizes[4:]), channels) for tokens in live)
    out = ("float32", "float32")
    return RowCase(OP, given, delta_rule, out, live=steps, rtol=1e-4, atol=1e-5)


GATED_DELTA_RULE_CASES = [
    case(1, 1, 1, 1, 1, 1),
    case(1, 4, 2, 5, 3, 7),
    case(2, 3, 3, 1, 16, 5, channels=True),
    case(2, 6, 1, 4, 5, 66, channels=True),
    case(1, 2, 2, 0, 3, 4),
    case(1, 2, 1, 70, 512, 3),  # more tokens than a dispatch takes
    case(1, 2, 1, 9, 4, 3, live=(1, 5, 9)),
]
