"""Guesses the tokens of a round of speculative decoding from the conversation.

    webpte.guess_tokens.default(tokens, sampled, position, history) -> out (int) [R]

  tokens    int32 [R]: the tokens of the last round; all but the first were guesses
  sampled   int32 [R]: the token that the model sampled after each of `tokens`
  position  int32 [1]: the position of `tokens[0]`
  history   int32 [C]: the conversation up to that position; the accepted tokens are written to it
  out       the last token, then the tokens that followed the last time the conversation had the
            same end; copies of the last token if it never had

An operator of webpte's own. It looks for the last four tokens, then three, then two, and takes the
latest match. It copies the tokens after the match; a copy that reaches the end goes on with the
copied tokens.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.sampling.next_round import accepted_of, check_round
from webpte.engine.shapes import Dims
from webpte.errors import GraphError

Array = np.ndarray

GRAMS = (4, 3, 2)  # lengths of the end to look for, longest first
MOST_ROOM = 1 << 28  # tokens per history
LANES = 256


def guess_tokens_shape(args: Args) -> tuple[Dims]:
    tokens, history = check_round(args, "history")
    if not 0 < history.numel <= MOST_ROOM:
        raise GraphError(f"{args.call}: a history of {history.numel} tokens, not 1 to {MOST_ROOM}")
    return ((tokens.numel,),)


def lower_guess_tokens(args: Args) -> list[Dispatch]:
    tokens, history = args.tensor("tokens"), args.tensor("history")
    others = args.tensor("sampled").id, args.tensor("position").id
    return [
        Dispatch(
            kernel="guess_tokens",
            bindings=(tokens.id, *others, history.id, args.out.id),
            params=pack("2I", tokens.numel, history.numel),
            grid=(1, 1, 1),
            overrides=(("LANES", 1 if args.target.software else LANES),),
        )
    ]


def run_guess_tokens(args: Args) -> Array:
    tokens, sampled, history = (
        args.array(name).reshape(-1) for name in ("tokens", "sampled", "history")
    )
    count = accepted_of(tokens, sampled) + 1
    begin = int(args.array("position").reshape(-1)[0]) + 1
    end = min(begin + count, history.size)
    history[begin:end] = sampled[: end - begin]
    return followed(history[:end], tokens.size)


def followed(context: Array, count: int) -> Array:
    """Return the last token of a context, and the tokens after an earlier occurrence of its end."""
    end = context.size
    for length in GRAMS:
        if length >= end:
            continue
        windows = np.lib.stride_tricks.sliding_window_view(context[:-1], length)
        places = np.flatnonzero((windows == context[end - length :]).all(axis=1))
        if places.size:
            start = int(places[-1]) + length
            copied = start + np.arange(count - 1) % (end - start)
            return np.array([context[-1], *context[copied]], context.dtype)
    return np.full(count, context[-1], context.dtype)


register(
    "webpte.guess_tokens.default",
    "tokens: tensor, sampled: tensor, position: tensor, history: tensor -> tensor",
    shape=guess_tokens_shape,
    lower=lower_guess_tokens,
    mutates=("history",),
    reference=run_guess_tokens,
)
