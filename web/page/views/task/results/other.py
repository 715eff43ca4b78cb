"""Results of no other kind: arrays, and anything as JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from page.shared.html.markup import Html, h
from page.shared.html.units import number_text, shape_text
from page.shared.outputs.figures import picture_figure
from page.shared.outputs.pictures import picture
from page.views.task.results.answer import TaskAnswer
from page.views.task.results.base import ResultView, Settings, as_json, stage

_FIRST = 32  # values of an array


def _draw_array(answer: TaskAnswer, settings: Settings) -> Html:
    values = np.asarray(answer.result, np.float32)
    rows = values.reshape(-1, values.shape[-1]) if values.ndim else values.reshape(1, 1)
    made = picture(rows) if min(rows.shape) >= 2 else None
    first = ", ".join(number_text(round(float(one), 4)) for one in values.reshape(-1)[:_FIRST])
    length = float(np.sqrt((values.astype(np.float64) ** 2).sum()))
    told = f"{shape_text(values.shape)} numbers, length {number_text(round(length, 4))}"
    return h(
        "div",
        h("h3", told),
        picture_figure(made, "the vectors") if made is not None else None,
        h("p", first + (", …" if values.size > _FIRST else ""), class_="values task-text"),
        class_="task-told",
    )


def _is_array(result: Any) -> bool:
    return isinstance(result, np.ndarray) and result.dtype.kind in "fiu" and result.size > 0


def _draw_plain(answer: TaskAnswer, settings: Settings) -> Html:
    if not isinstance(answer.result, np.ndarray) and answer.result in ([], {}, ""):
        told = "Nothing was found."
        shown = stage(answer, [], told) if answer.picture is not None else None
        return h("div", h("h3", told), shown, class_="task-told")
    return h("pre", json.dumps(as_json(answer.result), indent=1, ensure_ascii=False), tabindex="0")


ARRAY = ResultView(_is_array, _draw_array)
PLAIN = ResultView(lambda _: True, _draw_plain)
