"""Log-probabilities of a token and of the likeliest tokens.

    webpte.top_logprobs.default(logits, token, count, row) -> out (int) [1, 3 + 2 count]

  logits   [1, V], or [1, S, V] with the row that `row` names, or else the last
  token    the drawn token, in any shape; the last element is used
  out      the key of the token's logit; the sum of all probabilities, each divided by the largest,
           in Q31 (two words, the low one first); the largest keys, in descending order; and their
           tokens. The first of equal keys comes first. Missing keys are 0, missing tokens -1.

An operator of webpte's own. Keys are logits as integers (wgsl/lib/sampling/logit_keys.wgsl), and
probabilities are integers, too, as in sample.py: the reference and every GPU return the same words.
The distribution is the softmax of the unmodified logits. `TopLogprobs` computes logarithms from the
words, in float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.fixed_point import negative_power
from webpte.engine.ops.core.records import Dispatch, Scratch, ceil_div, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import (
    ONE_LANE,
    THREADS,
    RowThreads,
    check_floats,
    contiguous_layout,
)
from webpte.engine.ops.sampling.sample import (
    PART,
    SOFTWARE_PART,
    check_row,
    first_of_row,
    is_word,
    row_of,
)
from webpte.engine.ops.sampling.sample_numpy import (
    LOG2_E,
    MINUS_INFINITY_KEY,
    distances_below,
    keys_of,
    numbers_of,
)
from webpte.engine.shapes import Dims
from webpte.errors import GraphError

Array = np.ndarray

MOST = 20
HEAD_WORDS = 3  # the token's key, and the sum


def words_of(count: int) -> int:
    return HEAD_WORDS + 2 * count


def top_logprobs_shape(args: Args) -> tuple[Dims]:
    logits, token, count = args.tensor("logits"), args.tensor("token"), args.integer("count")
    check_floats(args, logits)
    check_row(args, logits)
    if not is_word(token) or token.numel == 0:
        raise GraphError(
            f"{args.call}: the token must be int32, not {token.dtype.name} {list(token.dims)}"
        )
    if not 1 <= count <= MOST:
        raise GraphError(f"{args.call}: {count} top logprobs; there can be 1 to {MOST}")
    if not is_word(args.out):
        raise GraphError(f"{args.call}: the words are int32, not {args.out.dtype.name}")
    return ((1, words_of(count)),)


def lower_top_logprobs(args: Args) -> list[Dispatch]:
    logits, token, count = args.tensor("logits"), args.tensor("token"), args.integer("count")
    length, software = logits.dims[-1], args.target.software
    part = SOFTWARE_PART if software else PART
    parts, layout = ceil_div(length, part), ONE_LANE if software else RowThreads(THREADS)
    pairs = Scratch("top logprobs of parts", 8 * parts * count)
    merging = contiguous_layout(parts * count, args.target)
    types = (("FLOAT", logits.dtype.wgsl),)
    row = first_of_row(args, logits)
    return [
        Dispatch(
            kernel="top_logprobs",
            bindings=(logits.id, pairs),
            params=pack("5I", row, length, parts, part, count),
            grid=layout.grid(parts),
            types=types,
            overrides=layout.overrides,
        ),
        Dispatch(
            kernel="top_logprobs_merge",
            bindings=(logits.id, token.id, pairs, args.out.id),
            params=pack("5I", row, length, token.numel - 1, parts * count, count),
            grid=(1, 1, 1),
            types=types,
            overrides=merging.overrides,
        ),
        Dispatch(
            kernel="top_logprobs_sum",
            bindings=(logits.id, args.out.id),
            params=pack("4I", row, length, parts, part),
            grid=layout.grid(parts),
            types=types,
            overrides=layout.overrides,
        ),
    ]


# The reference, and the reading of its words


def top_logprobs_words(logits: Array, token: int, count: int) -> Array:
    """Return the operator's words, int32 (3 + 2 count,), for logits (V,)."""
    keys = keys_of(logits.astype(np.float32))
    best = np.argsort(-keys, kind="stable")[:count]
    top = int(keys[best[0]])
    far = top <= MINUS_INFINITY_KEY  # no token has a probability
    mass = 0 if far else int(negative_power(distances_below(top, keys, LOG2_E)).sum())
    left = count - best.size
    chosen = int(keys[token]) if 0 <= token < keys.size else 0
    words = [chosen, mass & 0xFFFFFFFF, mass >> 32]
    words += [*keys[best].tolist(), *[0] * left, *best.tolist(), *[0xFFFFFFFF] * left]
    return np.array(words, np.uint32).view(np.int32)


@dataclass(frozen=True)
class TopLogprobs:
    """Log-probabilities (natural) of the drawn token and of the likeliest tokens."""

    logprob: float
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]

    @classmethod
    def of(cls, words: Array) -> TopLogprobs:
        unsigned = words.reshape(-1).view(np.uint32).astype(np.int64)
        count = (unsigned.size - HEAD_WORDS) // 2
        keys = unsigned[[0, *range(HEAD_WORDS, HEAD_WORDS + count)]]
        mass = int(unsigned[1]) + (int(unsigned[2]) << 32)
        log_mass = math.log(mass / 2**31) if mass else math.nan
        numbers = numbers_of(keys).astype(np.float64)
        # The first key is the drawn token's, the second the largest of all.
        logs = np.where(keys == MINUS_INFINITY_KEY, -math.inf, numbers - numbers[1] - log_mass)
        logprob, *logprobs = np.where(keys == 0, math.nan, logs).tolist()
        tokens = words.reshape(-1)[HEAD_WORDS + count :].tolist()
        there = sum(token >= 0 for token in tokens)
        return cls(logprob, tuple(tokens[:there]), tuple(logprobs[:there]))


def run_top_logprobs(args: Args) -> Array:
    token = int(args.array("token").reshape(-1)[-1])
    return top_logprobs_words(row_of(args), token, args.integer("count")).reshape(1, -1)


register(
    "webpte.top_logprobs.default",
    "logits: tensor, token: tensor, count: int, row: int = -1 -> tensor",
    shape=top_logprobs_shape,
    lower=lower_top_logprobs,
    reference=run_top_logprobs,
)
