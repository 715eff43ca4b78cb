"""Cases of mixtures of experts: dense matrices, token by token, in float64.

The bytes are written number by number, as torchao's universal layout has them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import Const, LiveCase
from support.cases.row_cases import normal

OP = "webpte.quantized_moe.default"


def pack_universal(numbers: Array, scales: Array, bits: int, header: tuple[int, int]) -> bytes:
    """Pack a matrix of integers [N, K] with scales [N, groups], N a multiple of 8."""
    (n, k), groups = numbers.shape, scales.shape[1]
    group, rows = k // groups, numbers.tolist()
    found = bytearray(np.array([*header, *[7] * 14], "<i4").tobytes())
    for first in range(0, n, 8):
        for g in range(groups):
            for column in range(g * group, (g + 1) * group, 16):
                values = [
                    value
                    for start in (column, column + 8)
                    for row in rows[first : first + 8]
                    for value in row[start : start + 8]
                ]
                if bits == 8:
                    found += bytes(value & 255 for value in values)
                    continue
                for at in range(0, 128, 32):
                    low, high = values[at : at + 16], values[at + 16 : at + 32]
                    found += bytes(a + 8 | b + 8 << 4 for a, b in zip(low, high, strict=True))
            found += scales[first : first + 8, g].astype("<f4").tobytes()
            found += np.full(8, 99, "<i4").tobytes()  # sums, which are not used
    return bytes(found)


@dataclass(frozen=True)
class Moe:
    """A mixture of experts with random weights."""

    experts: int
    activated: int
    dim: int
    hidden: int
    group: int = 16
    bits: int = 4
    score: str = "softmax"
    bias: bool = False
    scale: float = 1.0
    padding: int = 0  # bytes after each expert
    signed: bool = False  # the type of the bytes
    header: tuple[int, int] = (6712, 1)
    score_size: float = 1.0  # of the gate's elements
    score_shift: float = 0.0  # of all scores, for tokens whose first element is 1

    def gate(self) -> Array:
        gate = normal((self.experts, self.dim), 5, self.score_size)
        gate[:, 0] = self.score_shift
        return gate

    def bias_array(self) -> Array:
        return normal((self.experts,), 6) if self.bias else np.zeros(0, np.float32)

    def matrices(self, which: int) -> tuple[Array, Array]:
        """Return integers [experts, n, k] and scales [experts, n, groups] of w13 or w2."""
        n, k = (2 * self.hidden, self.dim) if which == 0 else (self.dim, self.hidden)
        rng = np.random.default_rng(which + n)
        limit = 1 << (self.bits - 1)
        numbers = rng.integers(-limit, limit, (self.experts, n, k))
        scales = rng.uniform(0.5, 1, (self.experts, n, k // self.group)) / (limit * math.sqrt(k))
        return numbers, scales.astype(np.float32)

    def packed(self, which: int) -> Array:
        pairs = zip(*self.matrices(which), strict=True)
        rows = [
            pack_universal(numbers, scales, self.bits, self.header) + b"\xa5" * self.padding
            for numbers, scales in pairs
        ]
        array = np.stack([np.frombuffer(row, np.uint8) for row in rows])
        return array.view(np.int8) if self.signed else array

    @property
    def scalars(self) -> tuple[Any, ...]:
        sizes = self.activated, self.experts, self.hidden, self.dim, self.group, self.bits
        return *sizes, self.score, self.scale

    def arguments(self, x: Array) -> tuple[Any, ...]:
        tensors = self.gate(), self.bias_array(), self.packed(0), self.packed(1)
        return x, *tensors, *self.scalars

    def tokens(self, count: int) -> Array:
        x = normal((count, self.dim), count)
        x[:, 0] = 1
        return x

    def expect(self, x: Array, *_: Any) -> Array:
        w13, w2 = (
            numbers * np.repeat(scales.astype(np.float64), self.group, axis=2)
            for numbers, scales in map(self.matrices, range(2))
        )
        with np.errstate(invalid="ignore"):
            rows = [self.of_token(token.astype(np.float64), w13, w2) for token in x]
        return np.array(rows).reshape(x.shape)

    def of_token(self, token: Array, w13: Array, w2: Array) -> Array:
        scores = self.gate().astype(np.float64) @ token
        weights = {e: self.share(score) for e, score in enumerate(scores.tolist())}
        bias = self.bias_array()
        ranks = weights if self.score == "sigmoid" else dict(enumerate(scores))
        ranks = {e: r + float(bias[e]) if self.bias else r for e, r in ranks.items()}
        order = [e for e in ranks if not math.isnan(ranks[e])]
        order = sorted(order, key=lambda e: (-ranks[e], e)) + [e for e in ranks if e not in order]
        chosen = order[: self.activated]
        if self.score == "softmax":
            largest = max(scores[e] for e in chosen)
            weights = {e: math.exp(scores[e] - largest) for e in chosen}
        total = sum(weights[e] for e in chosen)
        total = max(total, 2.0**-126) / (self.scale if self.score == "sigmoid" else 1)
        out = np.zeros(self.dim)
        for e in chosen:
            up, gate = w13[e, : self.hidden] @ token, w13[e, self.hidden :] @ token
            out += weights[e] / total * (w2[e] @ (up / (1 + np.exp(-up)) * gate))
        return out

    def share(self, score: float) -> float:
        if math.isnan(score) or self.score == "softmax":
            return score
        return 1 / (1 + math.exp(-score)) if score > -600 else 0.0


def case(moe: Moe, tokens: Sequence[int], label: str = "", number: float = 0.5) -> LiveCase:
    """`number` is an element of the second token."""
    _, *weights = moe.arguments(moe.tokens(0))
    # An empty bias is an input: files have no empty constants.
    constants = [Const(w) if isinstance(w, np.ndarray) and w.size else w for w in weights]
    given = [moe.tokens(count) for count in tokens]
    for x in given:
        x[1:2, 5] = number
    steps = [(x, *constants) for x in given]
    return LiveCase(OP, steps, moe.expect, "float32", label, rtol=2e-5, exact=False)


QUANTIZED_MOE_CASES = [
    case(Moe(5, 2, 32, 48), (7, 1, 0, 3)),
    case(Moe(5, 3, 48, 16, bits=8, score="sigmoid", bias=True, scale=2.5), (4, 1)),
    case(Moe(7, 2, 64, 32, group=32, bits=8), (3,)),
    case(Moe(7, 4, 32, 64, group=32, score="sigmoid", scale=1.5), (2, 1)),
    case(Moe(1, 1, 16, 16), (5, 1), "one expert"),
    case(Moe(3, 3, 16, 32, score="sigmoid"), (4,), "all experts"),
    case(Moe(3, 1, 16, 16, signed=True, padding=4), (2,), "signed, padded"),
    case(Moe(70, 6, 32, 16, score="sigmoid", bias=True), (3,)),
    case(Moe(3, 2, 1040, 528, group=16), (2,), "long rows"),
    case(Moe(3, 2, 32, 16, score="sigmoid", score_shift=-88.0), (3,), "tiny sigmoids"),
    case(Moe(3, 2, 32, 16, score="sigmoid", score_size=9.0, score_shift=-100.0), (3,), "none"),
    case(Moe(4, 2, 32, 16, score_size=0.0), (3,), "equal scores"),
    case(Moe(4, 2, 32, 16, score="sigmoid", score_size=0.0), (3,), "equal sigmoids"),
    *(
        case(Moe(4, 2, 32, 16, score=score), (3,), f"{score} {number}", number)
        for score in ("sigmoid", "softmax")
        for number in (math.nan, math.inf)
    ),
]
