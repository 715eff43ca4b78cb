"""Outputs that are scores: the highest of them, with their labels and how likely they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from page.npy import Array
from page.tensors import largest

SHOWN = 5
SHOWN_ROWS = 12
_MOST_ROWS = 4096  # more rows than this are no list of answers


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
    more: int = 0  # rows that are not shown


def rank(array: Array, labels: Sequence[str] = ()) -> Ranking | None:
    """The highest of one row of scores, or with labels the best of each row; None for others."""
    named = bool(labels) and array.ndim > 0 and array.shape[-1] == len(labels)
    if named and array.size > array.shape[-1]:
        return _best_of_rows(array, labels)
    top = largest(array, SHOWN)
    if not top:
        return None
    shares, how = _shares(array.reshape(1, -1), named)
    scores = tuple(
        Score(at, labels[at] if named else "", value, None if shares is None else shares[0, at])
        for at, value in top
    )
    return Ranking(scores, f"Highest scores{how}" if named or how else "Largest values")


def _best_of_rows(array: Array, labels: Sequence[str]) -> Ranking | None:
    rows = array.reshape(-1, array.shape[-1])
    if array.dtype.kind != "f" or len(rows) > _MOST_ROWS or not np.isfinite(rows).all():
        return None
    shares, how = _shares(rows, named=True)
    scores = []
    for row, values in enumerate(rows[:SHOWN_ROWS]):
        at = int(values.argmax())
        index = np.unravel_index(row, array.shape[:-1])
        where = str([int(one) for one in index])
        share = None if shares is None else float(shares[row, at])
        scores.append(Score(at, labels[at], float(values[at]), share, where))
    return Ranking(tuple(scores), f"Best of each row{how}", max(0, len(rows) - SHOWN_ROWS))


def _shares(rows: Array, named: bool) -> tuple[Array | None, str]:
    """How likely each is: as the scores say themselves, or by softmax if they are of labels.

    Scores that are neither may be anything, such as a vector that stands for a sentence.
    """
    wide = rows.astype(np.float64)
    if (wide >= 0).all() and (np.abs(wide.sum(axis=1) - 1) < 1e-3).all():
        return wide, ""
    if not named:
        return None, ""
    if (wide >= 0).all() and (wide <= 1).all():
        return wide, ""  # each is likely or not for itself, as after a sigmoid
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True), ", after softmax"
