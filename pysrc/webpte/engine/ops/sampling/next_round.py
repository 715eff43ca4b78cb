"""Computes the start of a round of speculative decoding from the end of the last round.

    webpte.next_round.default(tokens, sampled, position, table, first) -> out (int) [R + 1, W]

  tokens    int32 [R]: the tokens of the last round; all but the first were guesses
  sampled   int32 [R]: the token that the model sampled after each of `tokens`
  position  int32 [1]: the position of `tokens[0]`
  table     int32 [N, W]: the uploads of a step at each position, beginning with position `first`
  first     live: the position of the table's first row
  out       the table's rows of the next R positions; then a row that begins with the position of
            the next round and its first token

An operator of webpte's own. The first guess that differs from the sampled token before it ends the
accepted tokens, and the next round begins with that sampled token. For a row outside of the table,
its nearest row is used.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import WORKGROUP_SIZE
from webpte.engine.ops.core.records import Dispatch, SymIntBound, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.sampling.sample import is_word
from webpte.engine.shapes import Dims
from webpte.errors import GraphError

Array = np.ndarray

PLACE_WORDS = 2  # used words of the last row: the position and the token


def check_round(args: Args, last: str) -> tuple[TensorArg, TensorArg]:
    """Check the last round's tensors; return its tokens, and the tensor named `last`."""
    names = ("tokens", "sampled", "position", last)
    tokens, sampled, position, other = tensors = [args.tensor(name) for name in names]
    if not all(is_word(tensor) for tensor in (*tensors, args.out)):
        raise GraphError(f"{args.call}: all tensors must be int32")
    if not tokens.numel or tokens.numel != sampled.numel or position.numel != 1:
        raise GraphError(
            f"{args.call}: {tokens.numel} tokens, {sampled.numel} sampled ones and "
            f"{position.numel} positions; there must be as many of the first two, and one position"
        )
    return tokens, other


def next_round_shape(args: Args) -> tuple[Dims]:
    tokens, table = check_round(args, "table")
    if table.rank != 2 or not table.dims[0] or table.dims[1] < PLACE_WORDS:
        raise GraphError(f"{args.call}: a table [rows, words] is needed, not {list(table.dims)}")
    return ((tokens.numel + 1, table.dims[1]),)


def next_round_bounds(args: Args) -> list[SymIntBound]:
    return args.bound("first", 0, 2**31 - 1, "a position")


def lower_next_round(args: Args) -> list[Dispatch]:
    tokens, table = args.tensor("tokens"), args.tensor("table")
    rows, width = table.dims
    return [
        Dispatch(
            kernel="next_round",
            bindings=(
                tokens.id,
                args.tensor("sampled").id,
                args.tensor("position").id,
                table.id,
                args.out.id,
                args.uniform("first"),
            ),
            params=pack("3I", tokens.numel, rows, width),
            grid=fold_grid(ceil_div(args.out.numel, WORKGROUP_SIZE)),
        )
    ]


def accepted_of(tokens: Array, sampled: Array) -> int:
    """Return how many guesses were right; `tokens` (R,) after the first are guesses."""
    wrong = np.flatnonzero(tokens[1:] != sampled[:-1])
    return int(wrong[0]) if wrong.size else tokens.size - 1


def run_next_round(args: Args) -> Array:
    tokens, sampled = (args.array(name).reshape(-1) for name in ("tokens", "sampled"))
    table, accepted = args.array("table"), accepted_of(tokens, sampled)
    position = int(args.array("position").reshape(-1)[0]) + accepted + 1
    places = position - args.integer("first") + np.arange(tokens.size)
    out = np.zeros((tokens.size + 1, table.shape[1]), np.int32)
    out[:-1] = table[np.clip(places, 0, len(table) - 1)]
    out[-1, :PLACE_WORDS] = position, sampled[accepted]
    return out


register(
    "webpte.next_round.default",
    "tokens: tensor, sampled: tensor, position: tensor, table: tensor, first: live -> tensor",
    shape=next_round_shape,
    lower=lower_next_round,
    bounds=next_round_bounds,
    reference=run_next_round,
)
