"""Several pictures at once: a row for each, with its answer and time, as a table, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from page.shared.cards.cards import CardValue
from page.shared.html.units import number_text, shape_text
from page.shared.inputs.inputs import TensorInput
from page.shared.outputs.renderers.scores import Score, rank
from page.shared.outputs.tensors import Summary, summarise

TOP = 3  # classes of a row


@dataclass(frozen=True)
class OutputSummary:
    """An output without labels, in a few numbers."""

    name: str
    shape: tuple[int, ...]
    summary: Summary


@dataclass(frozen=True)
class BatchRow:
    """The answer to one picture: the highest `scores`, or `summaries` of all outputs; or why there
    is none.

    size       (height, width) of the picture, in pixels
    thumbnail  its address; ""  if the picture cannot be read
    """

    name: str
    size: tuple[int, int] = (0, 0)
    thumbnail: str = ""
    ms: float | None = None
    scores: tuple[Score, ...] = ()
    summaries: tuple[OutputSummary, ...] = ()
    error: str = ""

    def answer_text(self) -> str:
        """Return the answer in one line."""
        if self.error:
            return self.error
        if self.scores:
            return ", ".join(_score_text(score) for score in self.scores)
        return "; ".join(_summary_text(one) for one in self.summaries)


@dataclass(eq=False)
class PictureBatch:
    """Pictures for one input of a program, and the rows of the finished pictures."""

    method: str
    target: TensorInput
    files: Sequence[Any]
    rows: list[BatchRow] = field(default_factory=list)
    seconds: float = 0.0  # that the rows took

    @property
    def is_done(self) -> bool:
        return len(self.rows) == len(self.files)


def answer_of(
    values: Sequence[Any],
    names: Sequence[str],
    labels: Mapping[int, Sequence[str]],
    cards: Sequence[CardValue],
) -> tuple[tuple[Score, ...], tuple[OutputSummary, ...]]:
    """Return the highest scores of the first output with labels; without one, all outputs in
    numbers. Outputs that a card hides are left out."""
    shown = [
        (index, name, np.asarray(value))
        for index, (name, value) in enumerate(zip(names, values, strict=True))
        if index >= len(cards) or not cards[index].hidden
    ]
    for index, _, array in shown:
        if labels.get(index):
            ranking = rank(array, labels[index], TOP)
            if ranking is not None:
                return ranking.scores[:TOP], ()
    return (), tuple(
        OutputSummary(name, array.shape, summarise(array))
        for _, name, array in shown
        if array.dtype.kind in "fiub"
    )


def _score_text(score: Score) -> str:
    worth = number_text(score.value) if score.share is None else f"{100 * score.share:.1f} %"
    return f"{score.label or score.at} {worth}"


def _summary_text(one: OutputSummary) -> str:
    told = f"{one.name} {shape_text(one.shape)}"
    if one.summary.low is None or one.summary.high is None or one.summary.mean is None:
        return told
    low, high = number_text(one.summary.low), number_text(one.summary.high)
    return f"{told}: {low} to {high}, mean {number_text(one.summary.mean)}"


def batch_json(batch: PictureBatch) -> bytes:
    """Write the rows as a JSON list."""
    rows = [
        {
            "name": row.name,
            "width": row.size[1],
            "height": row.size[0],
            "milliseconds": row.ms,
            **({"error": row.error} if row.error else {}),
            **({"classes": [_score_json(one) for one in row.scores]} if row.scores else {}),
            **({"outputs": [_summary_json(one) for one in row.summaries]} if row.summaries else {}),
        }
        for row in batch.rows
    ]
    return (json.dumps(rows, ensure_ascii=False, indent=1) + "\n").encode()


def _score_json(score: Score) -> dict[str, object]:
    share = {} if score.share is None else {"probability": float(score.share)}
    return {"index": score.at, "label": score.label, "score": float(score.value), **share}


def _summary_json(one: OutputSummary) -> dict[str, object]:
    numbers = {"lowest": one.summary.low, "highest": one.summary.high, "mean": one.summary.mean}
    return {"name": one.name, "shape": list(one.shape), **numbers, "nan": one.summary.nan}


def batch_csv(batch: PictureBatch) -> bytes:
    """Write the rows as CSV: a class with its score takes two columns, an output three."""
    most = max((len(row.scores) for row in batch.rows), default=0)
    outputs = max((row.summaries for row in batch.rows), key=len, default=())
    heads = ["name", "width", "height", "milliseconds", "error"]
    heads += [f"{what} {at + 1}" for at in range(most) for what in ("class", "score")]
    heads += [f"{one.name} {what}" for one in outputs for what in ("lowest", "highest", "mean")]
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(heads)
    for row in batch.rows:
        cells: list[object] = [row.name, row.size[1], row.size[0]]
        cells += ["" if row.ms is None else f"{row.ms:.3f}", row.error]
        scores = [_score_cells(one) for one in row.scores] + [("", "")] * (most - len(row.scores))
        cells += [cell for pair in scores for cell in pair]
        for at in range(len(outputs)):
            one = row.summaries[at].summary if at < len(row.summaries) else None
            cells += [one.low, one.high, one.mean] if one is not None else ["", "", ""]
        table.writerow(cells)
    return text.getvalue().encode()


def _score_cells(score: Score) -> tuple[object, object]:
    worth = score.value if score.share is None else score.share
    return score.label or score.at, f"{worth:.6g}"
