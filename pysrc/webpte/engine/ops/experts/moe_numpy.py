"""The mixture of experts in NumPy, and the layout of its weights.

An expert's matrix [N, K] is a row of bytes in torchao's universal layout: a header of 64 bytes,
then for 8 rows at a time, and for each group along K, blocks of 8 rows by 16 numbers, followed by 8
scales (float32) and 8 sums (int32, not needed here). A block has the first 8 numbers of each row,
then the other 8. In 4 bits, 16 bytes have 32 numbers: the first 16 in the low halves, the others in
the high halves, each plus 8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from webpte.engine.ops.core.numpy_math import np_sigmoid
from webpte.errors import ExecutionError

Array = np.ndarray

HEADER = 64
MAGIC, UNIVERSAL = 6712, 1  # the first two words of the header
ROWS, COLUMNS, TURNS = 8, 16, 2  # size of a block, and turns in which its rows are written
TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class PackedSize:
    """The size of an expert's matrix [n, k], with numbers of some bits in groups along k."""

    n: int
    k: int
    group: int
    bits: int

    @property
    def blocks(self) -> int:
        """Blocks of rows."""
        return -(-self.n // ROWS)

    @property
    def block_bytes(self) -> int:
        return ROWS * COLUMNS * self.bits // 8

    @property
    def group_bytes(self) -> int:
        """Bytes of a group of 8 rows: its blocks, scales and sums."""
        return self.group // COLUMNS * self.block_bytes + 2 * 4 * ROWS

    @property
    def nbytes(self) -> int:
        return HEADER + self.blocks * (self.k // self.group) * self.group_bytes


def check_headers(packed: Array) -> None:
    """Raise for experts [experts, bytes] that are not in the universal layout."""
    headers = np.ascontiguousarray(packed[:, :8]).view("<i4")
    wrong = headers[(headers != (MAGIC, UNIVERSAL)).any(axis=1)]
    if len(wrong):
        magic, kind = wrong[0]
        raise ExecutionError(
            f"an expert's weights are packed as {magic}, {kind}; only torchao's universal layout "
            f"({MAGIC}, {UNIVERSAL}) can be read: export on a machine without KleidiAI"
        )


def unpack(blob: Array, size: PackedSize) -> Array:
    """Return a matrix [n, k] in float64."""
    check_headers(blob[None])
    blocks, groups, per_group = size.blocks, size.k // size.group, size.group_bytes
    data = blob.view(np.uint8)[HEADER : size.nbytes].reshape(blocks, groups, per_group)
    numbers = data[..., : per_group - 8 * ROWS]
    numbers = numbers.reshape(blocks, groups, size.group // COLUMNS, size.block_bytes)
    scales = np.ascontiguousarray(data[..., per_group - 8 * ROWS : per_group - 4 * ROWS])
    if size.bits == 4:
        pairs = numbers.reshape(*numbers.shape[:-1], -1, 16)
        values = np.stack([pairs & 15, pairs >> 4], axis=-2).astype(np.int16) - 8
    else:
        values = numbers.view(np.int8).astype(np.int16)
    # [block, group, 16 columns at a time, turn, row, column of the turn]
    values = values.reshape(blocks, groups, -1, TURNS, ROWS, COLUMNS // TURNS)
    values = values.transpose(0, 4, 1, 2, 3, 5).reshape(blocks, ROWS, groups, size.group)
    factors = scales.view("<f4").transpose(0, 2, 1)[..., None]
    return (values * factors.astype(np.float64)).reshape(blocks * ROWS, size.k)[: size.n]


def route(
    scores: Array, bias: Array, count: int, sigmoid: bool, route_scale: float
) -> tuple[Array, Array]:
    """Return the chosen experts of each token and their weights, [tokens, count] each."""
    # Without a bias, sigmoids have the order of the scores.
    ranked = np_sigmoid(scores) + bias if bias.size else scores
    ranked = np.nan_to_num(ranked, nan=-np.inf)
    chosen = np.argsort(-ranked, axis=1, kind="stable")[:, :count]  # the first of equal scores
    weights = np.take_along_axis(scores, chosen, 1)
    if sigmoid:
        weights = np_sigmoid(weights)
        return chosen, weights * route_scale / np.maximum(weights.sum(1, keepdims=True), TINY)
    powers = np.exp(weights - weights.max(axis=1, keepdims=True))
    return chosen, powers / powers.sum(axis=1, keepdims=True)


def np_quantized_moe(
    x: Array,
    chosen: Array,
    weights: Array,
    packed: tuple[Array, Array],
    sizes: tuple[PackedSize, PackedSize],
) -> Array:
    """Compute in float64, and round each result once."""
    wide = x.astype(np.float64)
    result, hidden = np.zeros_like(wide), sizes[1].k
    for expert in np.unique(chosen):
        tokens, place = np.nonzero(chosen == expert)
        both = wide[tokens] @ unpack(packed[0][expert], sizes[0]).T
        up, gate = both[:, :hidden], both[:, hidden:]
        middle = up * np_sigmoid(up) * gate
        found = middle @ unpack(packed[1][expert], sizes[1]).T
        result[tokens] += found * weights[tokens, place][:, None]  # at most once per token
    return result.astype(x.dtype)
