"""The sampler of several sequences at once: a token from each row of the logits.

    webpte.sample_rows.default(logits, history, places, settings, seed,
                               with_top_k, with_top_p, penalized, allowed) -> out (int) [R, 1]

  logits    [R, V] or [1, R, V]
  history   int32 [slots, C, 1, 1], or null: the tokens of each sequence; the tokens of a row's slot
            before its position are penalized
  places    int32 [R, 4]: the position of the token to draw and the slot of each row, and two zeros
  settings  [R, 8], seed int32 [R, 2], allowed int32 [R, ceil(V / 32)] or null: for each row, as in
            sample.py

A flag that any row needs is set for all rows: a setting that is off keeps every token. The token
drawn for padding, a row with a negative slot, has no meaning. An operator of webpte's own.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.records import Dispatch, ceil_div
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import check_floats
from webpte.engine.ops.sampling.sample import SETTINGS, SampleDispatches, is_word
from webpte.engine.ops.sampling.sample_numpy import WORD_BITS, Settings, choose_token
from webpte.engine.shapes import Dims, numel
from webpte.errors import GraphError

Array = np.ndarray

SAMPLE_ROWS = "webpte.sample_rows.default"
SIGNATURE = (
    "logits: tensor, history: tensor?, places: tensor, settings: tensor, seed: tensor, "
    "with_top_k: bool = False, with_top_p: bool = False, penalized: bool = False, "
    "allowed: tensor? = None -> tensor"
)
PLACE_WORDS = 4


def rows_shape(args: Args) -> tuple[Dims]:
    logits, settings = args.tensor("logits"), args.tensor("settings")
    check_floats(args, logits, settings)
    rows, vocabulary = numel(logits.dims[:-1]), logits.dims[-1] if logits.rank else 0
    if not rows or not vocabulary:
        raise GraphError(f"{args.call}: logits {list(logits.dims)} are empty")
    wanted = {"places": (rows, PLACE_WORDS), "seed": (rows, 2)}
    if args.optional_tensor("allowed") is not None:
        wanted["allowed"] = (rows, ceil_div(vocabulary, WORD_BITS))
    for name, dims in wanted.items():
        tensor = args.tensor(name)
        if tensor.dims != dims or not is_word(tensor):
            raise GraphError(
                f"{args.call}: {name} must be int32 {list(dims)}, not {tensor.dtype.name} "
                f"{list(tensor.dims)}"
            )
    if settings.dims != (rows, SETTINGS):
        raise GraphError(
            f"{args.call}: settings must be {[rows, SETTINGS]}, not {list(settings.dims)}"
        )
    history = args.optional_tensor("history")
    if args.flag("penalized") and (history is None or history.rank != 4 or not is_word(history)):
        raise GraphError(f"{args.call}: a penalty needs a history of int32 [slots, C, 1, 1]")
    if not is_word(args.out):
        raise GraphError(f"{args.call}: tokens are int32 or int64, not {args.out.dtype.name}")
    return ((rows, 1),)


def lower_rows(args: Args) -> list[Dispatch]:
    rows, history = numel(args.tensor("logits").dims[:-1]), args.optional_tensor("history")
    length = 0 if history is None else history.dims[1]
    places = args.tensor("places").id
    return SampleDispatches.of(args, places, rows=rows, history=length).dispatches()


def run_rows(args: Args) -> Array:
    logits, history = args.array("logits"), args.optional_array("history")
    flags = (args.flag("with_top_k"), args.flag("with_top_p"), args.flag("penalized"))
    allowed, tokens = args.optional_array("allowed"), list[list[int]]()
    rows = zip(
        logits.reshape(-1, logits.shape[-1]),
        args.array("places"),
        args.array("settings"),
        args.array("seed"),
        strict=True,
    )
    for row, (own, place, settings, seed) in enumerate(rows):
        position, slot = int(place[0]), max(int(place[1]), 0)
        before = () if history is None else history[slot, :position].reshape(-1)
        mask = None if allowed is None else allowed[row]
        given = Settings.of(settings, *flags)
        tokens.append([choose_token(own, given, seed, position, before, mask)])
    return np.array(tokens, np.int32)


register(
    SAMPLE_ROWS,
    SIGNATURE,
    shape=rows_shape,
    lower=lower_rows,
    reference=run_rows,
)
