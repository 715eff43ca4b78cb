"""The gated delta rule: linear attention with a state that each token decays and corrects.

    webpte.gated_delta_rule(query, key, value, decay, beta, initial_state) -> (out, final_state)

For each token, with the state S [K, V] of its head:

    S = decay * S;  S = S + k (beta * (v - S^T k))^T;  out = S^T q

query [B, heads, T, K], key [B, states, T, K], value [B, states, T, V], beta [B, states, T], states
[B, states, K, V]. Query head h reads state h // (heads // states). decay is [B, states, T, K], or
[B, states, T] for a number per token. An operator of webpte's own, for the portable kernel of that
name; a thread computes one column of a state, token by token.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import WORKGROUP_SIZE, float_type
from webpte.engine.ops.core.records import Dispatch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import check_floats
from webpte.engine.shapes import Dims
from webpte.errors import GraphError

Array = np.ndarray

NAMES = ("query", "key", "value", "decay", "beta", "initial_state")
# Loop steps of a thread in one dispatch: Mesa's software driver stops at 65,535, and a GPU must not
# be busy for seconds.
MOST_STEPS = 60_000


def delta_rule_shape(args: Args) -> tuple[Dims, Dims]:
    tensors = [args.tensor(name) for name in NAMES]
    check_floats(args, *tensors)
    q, k, v, decay, beta, state = (tensor.dims for tensor in tensors)
    fits = (
        len(q) == len(k) == len(v) == len(state) == 4
        and (q[0], q[2], q[3]) == (k[0], k[2], k[3])
        and k[1] > 0
        and q[1] % k[1] == 0
        and k[:3] == v[:3] == beta
        and decay in (k, k[:3])
        and state == (*k[:2], k[3], v[3])
    )
    if not fits:
        shapes = ", ".join(f"{n} {list(t.dims)}" for n, t in zip(NAMES, tensors, strict=True))
        raise GraphError(
            f"{args.call}: {shapes}; expected are query [B, heads, T, K], key [B, states, T, K], "
            "value [B, states, T, V], decay [B, states, T, K] or [B, states, T], beta "
            "[B, states, T], initial_state [B, states, K, V], with a multiple of states as heads"
        )
    return (*q[:3], v[3]), state


def lower_delta_rule(args: Args) -> list[Dispatch]:
    tensors, outs = [args.tensor(name) for name in NAMES], args.outs
    (batch, heads, tokens, keys), (_, states, _, size) = tensors[0].dims, tensors[2].dims
    columns, group = batch * states * size, heads // states
    if columns == 0:
        return []
    part = max(1, MOST_STEPS // max(keys * (2 + group), 1))
    return [
        Dispatch(
            kernel="gated_delta_rule",
            bindings=tuple(tensor.id for tensor in (*tensors, *outs)),
            params=pack("8I", columns, group, tokens, keys, size, first, last, 0),
            grid=fold_grid(ceil_div(columns, WORKGROUP_SIZE)),
            types=(("FLOAT", float_type(args, *tensors, *outs)),),
            overrides=(("CHANNELS", int(len(tensors[3].dims) == 4)),),
        )
        for first in range(0, max(tokens, 1), part)
        for last in [min(first + part, tokens)]
    ]


def np_gated_delta_rule(*arrays: Array) -> tuple[Array, Array]:
    """Compute in float64, and round each result once."""
    q, k, v, decay, beta, state = (array.astype(np.float64) for array in arrays)
    decay = decay if decay.ndim == 4 else decay[..., None]
    group = q.shape[1] // k.shape[1]
    out = np.zeros((*q.shape[:3], v.shape[3]))
    for token in range(q.shape[2]):
        key = k[:, :, token, :, None]  # [B, states, K, 1]
        state = state * decay[:, :, token, :, None]
        missing = v[:, :, token] - (state * key).sum(axis=-2)
        state = state + key * (missing * beta[:, :, token, None])[:, :, None]
        read = np.repeat(state, group, axis=1) * q[:, :, token, :, None]
        out[:, :, token] = read.sum(axis=-2)
    return out.astype(arrays[0].dtype), state.astype(arrays[5].dtype)


register(
    "webpte.gated_delta_rule.default",
    ", ".join(f"{name}: tensor" for name in NAMES) + " -> tensors",
    shape=delta_rule_shape,
    lower=lower_delta_rule,
    reference=lambda args: list(np_gated_delta_rule(*(args.array(name) for name in NAMES))),
)
