"""The best answer at each time of a sound, as bars over time: a row for each answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from page.shared.html.markup import Html, h
from page.shared.html.units import plural
from page.shared.npy import Array
from page.shared.outputs.figures import caption, plot

MOST = 12  # rows, the longest answers
_SIZE = 1000, 20  # of a row, in its own units


@dataclass(frozen=True)
class AnswerSpan:
    """Consecutive times [start, end) with the same best answer, and its mean probability."""

    at: int
    start: int
    end: int
    share: float


def spans_of(best: Array, shares: Array) -> Iterator[AnswerSpan]:
    """Yield the spans of the best answers (times,), which have these probabilities."""
    edges = np.flatnonzero(np.diff(best)) + 1
    starts = [0, *edges.tolist()]
    for start, end in zip(starts, [*starts[1:], len(best)], strict=True):
        yield AnswerSpan(int(best[start]), start, end, float(shares[start:end].mean()))


def lanes_figure(
    rows: Array, shares: Array | None, labels: tuple[str, ...], seconds: float
) -> Html:
    """Return the figure of scores (times, labels), `seconds` from one time to the next."""
    best = rows.argmax(axis=1)
    of_best = (rows if shares is None else shares)[np.arange(len(rows)), best]
    spans = list(spans_of(best, of_best if shares is not None else np.ones(len(rows))))
    lasting: dict[int, int] = {}
    for one in spans:
        lasting[one.at] = lasting.get(one.at, 0) + one.end - one.start
    longest = sorted(lasting, key=lambda at: -lasting[at])[:MOST]
    lanes = [
        _lane(labels[at], [one for one in spans if one.at == at], len(rows), seconds)
        for at in sorted(longest, reverse=True)
    ]
    more = f"; {MOST} of {plural(len(lasting), 'answer')}" if len(lasting) > MOST else ""
    return h(
        "figure",
        h("ol", lanes, class_="lanes"),
        caption("0 s", f"Best answer over time{more}", f"{len(rows) * seconds:.2f} s"),
    )


def _lane(label: str, spans: list[AnswerSpan], count: int, seconds: float) -> Html:
    width, height = _SIZE
    bars = [
        h(
            "rect",
            x=f"{width * one.start / count:.1f}",
            width=f"{width * (one.end - one.start) / count:.1f}",
            height=height,
            fill_opacity=f"{0.25 + 0.75 * one.share:.2f}",
        )
        for one in spans
    ]
    times = ", ".join(
        f"{one.start * seconds:.2f} to {one.end * seconds:.2f} s, {100 * one.share:.0f} %"
        for one in spans
    )
    drawn = plot(bars, _SIZE, times, "lane")
    return h("li", h("span", label, class_="label-name"), drawn, title=times)
