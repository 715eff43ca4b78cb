"""Results that are parts of a sound: when somebody speaks."""

from __future__ import annotations

from typing import Any

import numpy as np

from page.shared.html.markup import Html, h
from page.shared.html.units import plural
from page.shared.outputs.figures import plot
from page.views.task.results.answer import GivenSound, TaskAnswer
from page.views.task.results.base import MOST_SHOWN, ResultView, Settings, colour, has_items

_WIDE, _TALL = 600, 80  # units of the drawing


def wave(sound: GivenSound) -> Html:
    """Return the loudness of a sound along its time."""
    count = min(_WIDE // 2, max(1, len(sound.samples)))
    parts = np.array_split(np.abs(sound.samples), count)
    peaks = np.array([part.max(initial=0) for part in parts]) / max(
        float(np.abs(sound.samples).max(initial=0)), 1e-9
    )
    step = _WIDE / count
    lines = "".join(
        f"M{(at + 0.5) * step:.1f} {_TALL / 2 - 36 * peak:.1f}v{max(72 * peak, 0.5):.1f}"
        for at, peak in enumerate(peaks.tolist())
    )
    return h("path", d=lines, stroke="currentColor", stroke_width=f"{0.7 * step:.2f}", fill="none")


def _draw_spans(answer: TaskAnswer, settings: Settings) -> Html:
    sound = answer.sound
    assert sound is not None
    found = answer.result[:MOST_SHOWN]
    whole = max(sound.seconds, 1e-9)
    spans = [
        h(
            "rect",
            x=f"{_WIDE * one['start'] / whole:.1f}",
            y="0",
            width=f"{max(1.0, _WIDE * (one['end'] - one['start']) / whole):.1f}",
            height=_TALL,
            fill=colour(0),
            fill_opacity="0.35",
        )
        for one in found
    ]
    total = sum(one["end"] - one["start"] for one in answer.result)
    told = f"{plural(len(answer.result), 'part')}, {total:.1f} of {sound.seconds:.1f} s"
    rows = [h("li", f"{one['start']:.1f} to {one['end']:.1f} s", class_="number") for one in found]
    drawn = plot([spans, wave(sound)], (_WIDE, _TALL), told, "task-wave")
    return h("div", h("h3", told), drawn, h("ol", rows, class_="task-times"), class_="task-told")


def _is_spans(result: Any) -> bool:
    return has_items(result, "start", "end") and not has_items(result, "score")


SPANS = ResultView(_is_spans, _draw_spans)
