"""The mixture of experts with quantized weights, as ExecuTorch's kernels take it.

Each token goes to the experts of its largest scores; their outputs are added, each multiplied by
its routing weight. An expert is w2 (silu(w1 x) * w3 x), with w1 and w3 in one matrix of 2 * F rows.

An expert's matrix [N, K] is a row of bytes in torchao's universal layout: a header of 64 bytes,
then for 8 rows at a time, and for each group along K, blocks of 8 rows by 16 numbers, followed by
8 scales (float32) and 8 sums (int32, which nothing here needs). A block has the first 8 numbers of
each row, then the other 8. Of 4-bit numbers, 16 bytes have 32 numbers: the first 16 in their low
halves, the others in the high ones, each plus 8.
"""

from __future__ import annotations

import numpy as np

from webpte.errors import ExecutionError
from webpte.ops.core.numpy_math import np_sigmoid
from webpte.portable.registry import register

Array = np.ndarray

HEADER = 64
MAGIC, UNIVERSAL = 6712, 1  # the first two words of the header
ROWS, COLUMNS, TURNS = 8, 16, 2  # of a block, and in how many turns its rows are written
TINY = float(np.finfo(np.float32).tiny)


def unpack(blob: Array, n: int, k: int, group: int, bits: int) -> Array:
    """Return a matrix [n, k] in float64."""
    groups, blocks = k // group, -(-n // ROWS)
    size = ROWS * COLUMNS * bits // 8  # bytes of a block
    per_group = group // COLUMNS * size + 2 * 4 * ROWS
    needed = HEADER + blocks * groups * per_group
    if len(blob) < needed:
        raise ExecutionError(f"an expert has {len(blob)} bytes; [{n}, {k}] takes {needed}")
    magic, kind = np.frombuffer(blob[:8].tobytes(), "<i4")
    if (magic, kind) != (MAGIC, UNIVERSAL):
        raise ExecutionError(
            f"an expert's weights are packed as {magic}, {kind}; only torchao's universal layout "
            f"({MAGIC}, {UNIVERSAL}) can be read: export on a machine without KleidiAI"
        )
    data = blob[HEADER:needed].reshape(blocks, groups, per_group)
    numbers = data[..., : per_group - 8 * ROWS].reshape(blocks, groups, group // COLUMNS, size)
    scales = np.ascontiguousarray(data[..., per_group - 8 * ROWS : per_group - 4 * ROWS])
    if bits == 4:
        pairs = numbers.reshape(*numbers.shape[:-1], -1, 16)
        values = np.stack([pairs & 15, pairs >> 4], axis=-2).astype(np.int16) - 8
    else:
        values = numbers.view(np.int8).astype(np.int16)
    # [block, group, 16 columns at a time, turn, row, column of the turn]
    values = values.reshape(blocks, groups, -1, TURNS, ROWS, COLUMNS // TURNS)
    values = values.transpose(0, 4, 1, 2, 3, 5).reshape(blocks, ROWS, groups, group)
    factors = scales.view("<f4").transpose(0, 2, 1)[..., None]
    return (values * factors.astype(np.float64)).reshape(blocks * ROWS, k)[:n]


def route(
    scores: Array, bias: Array, count: int, score_func: str, route_scale: float
) -> tuple[Array, Array]:
    """Return the experts of each token and their weights, [tokens, count] each."""
    if score_func not in ("sigmoid", "softmax"):
        raise ExecutionError(f"score_func={score_func!r}: there are sigmoid and softmax")
    if bias.size and score_func == "softmax":
        raise ExecutionError("expert_bias is for score_func='sigmoid' only")
    scores = np_sigmoid(scores) if score_func == "sigmoid" else scores
    ranked = np.nan_to_num(scores + bias if bias.size else scores, nan=-np.inf)
    chosen = np.argsort(-ranked, axis=1, kind="stable")[:, :count]  # the first of equals
    weights = np.take_along_axis(scores, chosen, 1)
    if score_func == "sigmoid":
        return chosen, weights * route_scale / np.maximum(weights.sum(1, keepdims=True), TINY)
    powers = np.exp(weights - weights.max(axis=1, keepdims=True))
    return chosen, powers / powers.sum(axis=1, keepdims=True)


def quantized_moe(
    x: Array,
    gate_weight: Array,
    expert_bias: Array,
    packed_w13: Array,
    packed_w2: Array,
    num_activated: int,
    num_experts: int,
    hidden: int,
    dim: int,
    group: int,
    bits: int,
    score_func: str,
    route_scale: float,
) -> Array:
    fits = (
        x.ndim == 2
        and x.shape[1] == dim
        and gate_weight.shape == (num_experts, dim)
        and expert_bias.shape in ((0,), (num_experts,))
        and len(packed_w13) == len(packed_w2) == num_experts
        and 0 < num_activated <= num_experts
    )
    if not fits:
        raise ExecutionError(
            f"x {list(x.shape)}, gate {list(gate_weight.shape)}, bias {list(expert_bias.shape)} "
            f"for {num_activated} of {num_experts} experts of {dim} elements"
        )
    if bits not in (4, 8) or group <= 0 or group % COLUMNS or dim % group or hidden % group:
        raise ExecutionError(
            f"weights of {bits} bits in groups of {group} for {dim} and {hidden} elements; 4 or 8 "
            f"bits are needed, and groups that divide both and are a multiple of {COLUMNS}"
        )
    wide = x.astype(np.float64)
    scores = wide @ gate_weight.astype(np.float64).T
    chosen, weights = route(scores, expert_bias, num_activated, score_func, route_scale)
    result = np.zeros_like(wide)
    for expert in np.unique(chosen):
        tokens, place = np.nonzero(chosen == expert)
        both = wide[tokens] @ unpack(packed_w13[expert], 2 * hidden, dim, group, bits).T
        up, gate = both[:, :hidden], both[:, hidden:]
        middle = up * np_sigmoid(up) * gate
        found = middle @ unpack(packed_w2[expert], dim, hidden, group, bits).T
        result[tokens] += found * weights[tokens, place][:, None]  # a token has an expert once
    return result.astype(x.dtype)


register(
    "llama::quantized_moe_ffn.out",
    "x, gate_weight, expert_bias, packed_w13, packed_w2, num_activated_experts, num_experts, "
    "hidden_dim, dim, group_size, weight_nbit, score_func, route_scale",
    quantized_moe,
)
