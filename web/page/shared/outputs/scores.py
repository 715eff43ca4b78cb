"""Outputs that are scores: the highest, with labels and probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from page.shared.npy import Array
from page.shared.outputs.tensors import largest

SHOWN = 5
HOWS = {
    "auto": "automatic",
    "softmax": "softmax",
    "sigmoid": "sigmoid",
    "values": "raw values",
}
SHOWN_ROWS = 12
_MOST_ROWS = 4096  # an output with more rows is not a list of answers


@dataclass(frozen=True)
class Score:
    """`at` is the index in the last dim; `where` names the row, if there are several."""

    at: int
    label: str
    value: float
    share: float | None = None  # of 1: how likely it is
    where: str = ""


@dataclass(frozen=True)
class Ranking:
    scores: tuple[Score, ...]
    caption: str
    rows: int = 0  # of which the scores are the best each; 0: they are those of one row


def answer_text(ranking: Ranking | None) -> str:
    """Return the best of one row in a few words, such as "7, 99.2 %"; "" without name or share."""
    if ranking is None or not ranking.scores:
        return ""
    best = ranking.scores[0]
    if not best.label or best.share is None or best.where:
        return ""
    return f"{best.label}, {100 * best.share:.1f} %"


def rank(
    array: Array,
    labels: Sequence[str] = (),
    top: int = SHOWN,
    how: str = "auto",
    seconds: float = 0.0,
) -> Ranking | None:
    """Return the `top` highest of one row of scores, or with labels the best of each row; else
    None.

    how      how scores become probabilities, one of `HOWS`
    seconds  from row to row, where they are frames of a sound
    """
    named = bool(labels) and array.ndim > 0 and array.shape[-1] == len(labels)
    if named and array.size > array.shape[-1]:
        return _best_of_rows(array, labels, max(top, SHOWN_ROWS), how, seconds)
    highest = largest(array, top)
    if not highest:
        return None
    shares, after = _shares(array.reshape(1, -1), named, how)
    scores = tuple(
        Score(at, labels[at] if named else "", value, None if shares is None else shares[0, at])
        for at, value in highest
    )
    return Ranking(scores, f"Highest scores{after}" if named or after else "Largest values")


def _best_of_rows(
    array: Array, labels: Sequence[str], shown: int, how: str, seconds: float
) -> Ranking | None:
    rows = array.reshape(-1, array.shape[-1])
    if array.dtype.kind != "f" or len(rows) > _MOST_ROWS or not np.isfinite(rows).all():
        return None
    shares, after = _shares(rows, True, how)
    scores = []
    for row, values in enumerate(rows[:shown]):
        at = int(values.argmax())
        index = np.unravel_index(row, array.shape[:-1])
        where = f"{row * seconds:.2f} s" if seconds else str([int(one) for one in index])
        share = None if shares is None else float(shares[row, at])
        scores.append(Score(at, labels[at], float(values[at]), share, where))
    caption = "Best answer at each time" if seconds else "Best of each row"
    return Ranking(tuple(scores), caption + after, len(rows))


def _shares(rows: Array, named: bool, how: str) -> tuple[Array | None, str]:
    """Return the probability of each score: the scores themselves, or softmax if they have labels.

    Other scores may be anything, such as the embedding of a sentence.
    """
    wide = rows.astype(np.float64)
    if how == "values":
        return None, ""
    if how == "sigmoid":
        return 1 / (1 + np.exp(-wide.clip(-60, 60))), ", after sigmoid"
    if how == "softmax":
        return _softmax(wide), ", after softmax"
    if (wide >= 0).all() and (np.abs(wide.sum(axis=1) - 1) < 1e-3).all():
        return wide, ""
    if not named:
        return None, ""
    if (wide >= 0).all() and (wide <= 1).all():
        return wide, ""  # independent probabilities, as after a sigmoid
    return _softmax(wide), ", after softmax"


def _softmax(wide: Array) -> Array:
    powers: Array = np.exp(wide - wide.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
