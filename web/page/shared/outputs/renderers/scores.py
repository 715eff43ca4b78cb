"""The highest scores of an output, by name where names are known: the ranking and its renderer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from page.shared.html.markup import Html, h
from page.shared.html.units import count_text, number_text
from page.shared.npy import Array
from page.shared.outputs.figures import bar
from page.shared.outputs.renderers.base import (
    OutputContext,
    Renderer,
    Settings,
    choice_field,
    one_of,
    whole,
)
from page.shared.outputs.renderers.lanes import lanes_figure

SHOWN = 5
HOWS = {
    "auto": "automatic",
    "softmax": "softmax",
    "sigmoid": "sigmoid",
    "values": "raw values",
}
SHOWN_ROWS = 12
_MOST_ROWS = 4096  # an output with more rows is not a list of answers
_TOPS = {"5": "top 5", "10": "top 10", "25": "top 25", "100": "top 100"}
_ROWS = {str(SHOWN_ROWS): f"{SHOWN_ROWS} rows", "25": "25 rows", "100": "100 rows"}


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
    rows: int = 0  # the number of rows, each with its best scores; 0: the scores of a single row


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
    # Scores with names need no caption but how they became probabilities.
    caption = after.removeprefix(", ").capitalize() if named or after else "Largest values"
    return Ranking(scores, caption)


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


def largest(array: Array, count: int = 5) -> list[tuple[int, float]]:
    """Return (index, value) of the largest elements if the tensor is one row of scores; else []."""
    if array.dtype.kind != "f" or array.ndim == 0 or array.size != array.shape[-1]:
        return []
    flat = array.reshape(-1)
    count = min(count, flat.size)
    if flat.size < 2 or not np.isfinite(flat).all():
        return []
    top = np.argpartition(flat, -count)[-count:]
    top = top[np.argsort(-flat[top], kind="stable")]
    return [(int(index), float(flat[index])) for index in top]


def _draw(context: OutputContext, settings: Settings) -> Html:
    top = whole(settings, "top", 5, 1, 100)
    how = one_of(settings, "how", list(HOWS), "auto")
    ranking = _ranking(context, top, how)
    assert ranking is not None  # as `fits` says
    tops, chosen = (_ROWS, max(top, SHOWN_ROWS)) if ranking.rows else (_TOPS, top)
    over_time = bool(ranking.rows and context.row_seconds)
    return h(
        "div",
        _over_time(context, how) if over_time else _figure(ranking),
        h(
            "details",
            h("summary", "Options"),
            h(
                "div",
                choice_field(context, "top", "show", tops, str(chosen))
                if not over_time and not 0 < ranking.rows <= SHOWN_ROWS
                else None,
                choice_field(context, "how", "scores as", HOWS, how),
                class_="controls",
            ),
            class_="more-controls",
        ),
        class_="rendered-scores",
    )


def _over_time(context: OutputContext, how: str) -> Html:
    """Return the best answers of the frames of a sound, as bars over time."""
    rows = context.array.reshape(-1, context.array.shape[-1])
    shares, _ = _shares(rows, True, how)
    return lanes_figure(rows, shares, tuple(context.labels), context.row_seconds)


def scores_figure(context: OutputContext) -> Html | None:
    ranking = _ranking(context)
    if ranking is not None and ranking.rows and context.row_seconds:
        return _over_time(context, "auto")
    return None if ranking is None else _figure(ranking)


def _ranking(context: OutputContext, top: int = SHOWN, how: str = "auto") -> Ranking | None:
    return rank(context.array, context.labels, top, how, context.row_seconds)


def _figure(ranking: Ranking) -> Html:
    """Return the list; the first of one row is its answer, and is larger than the others."""
    shown = len(ranking.scores)
    more = f"; {count_text(shown)} of {count_text(ranking.rows)}" if ranking.rows > shown else ""
    return h(
        "figure",
        h(
            "ol",
            [_score(score) for score in ranking.scores],
            class_="largest" if ranking.rows else "largest answered",
        ),
        h("figcaption", ranking.caption + more) if ranking.caption or more else None,
    )


def _score(score: Score) -> Html:
    share = score.share
    return h(
        "li",
        None if score.label == str(score.at) and not score.where  # it would be said twice
        else h("code", score.where or f"[{score.at}]"),
        h("span", score.label, class_="label-name") if score.label else None,
        h("span", number_text(score.value) if share is None else f"{100 * share:.1f} %",
          class_="number", title=number_text(score.value)),
        bar(100 * share) if share is not None else None,
    )  # fmt: skip


RENDERER = Renderer(
    "scores",
    "Scores",
    lambda context: rank(context.array, context.labels) is not None,
    _draw,
    best=lambda context: bool(context.labels),
    by_value=True,
)
