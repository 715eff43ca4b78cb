"""A little of everything: the highest scores, a picture or a curve, the spread, first values."""

from __future__ import annotations

from collections.abc import Sequence

from page.curves import lines_chart
from page.figures import caption, histogram_figure, picture_figure
from page.looks.base import Look, Settings, Sight
from page.looks.curve import is_line
from page.looks.scores import scores_figure
from page.markup import Html, h
from page.npy import Array
from page.pictures import picture
from page.tables import scrolled
from page.tensors import Grid, grid, histogram
from page.units import number_text


def _draw(sight: Sight, settings: Settings) -> Html:
    array = sight.array
    shown = [scores_figure(sight), _picture(array), _curve(array), _histogram(array)]
    return h(
        "div",
        h("div", shown, class_="pictures") if any(shown) else None,
        _values(array),
        class_="output-body",
    )


def _picture(array: Array) -> Html | None:
    made = picture(array)
    if made is None:
        return None
    return picture_figure(made, f"the output, {made.width} by {made.height} pixels")


def _curve(array: Array) -> Html | None:
    if not is_line(array):
        return None
    chart = h(
        "div", lines_chart(array.reshape(1, -1)), role="img", aria_label="Curve of the values"
    )
    return h("figure", chart, caption("Curve"))


def _histogram(array: Array) -> Html | None:
    spread = histogram(array)
    if spread is None or array.size < 8:
        return None
    low, high = number_text(spread.low), number_text(spread.high)
    label = f"Histogram from {low} to {high}"
    return histogram_figure(spread.counts, label, low, "Distribution", high)


def _values(array: Array) -> Html | None:
    table = grid(array)
    if not table.rows:
        return h("p", "This output is empty.", class_="soft")
    return scrolled(
        "First values",
        h(
            "table",
            [_value_row(line, table) for line in table.rows],
            h("tr", [h("td", "⋮") for _ in table.rows[0]]) if table.more_rows else None,
            class_="grid",
        ),
        h("p", f"at {table.where} of the leading dimensions", class_="note")
        if table.where
        else None,
    )


def _value_row(line: Sequence[str], table: Grid) -> Html:
    return h("tr", [h("td", text) for text in line], h("td", "…") if table.more_columns else None)


LOOK = Look("overview", "Overview", lambda sight: True, _draw)
