"""A little of everything: the highest scores, a picture or a curve, the spread, first values."""

from __future__ import annotations

from page.shared.html.markup import Html, h
from page.shared.html.tables import scrolled
from page.shared.html.units import number_text
from page.shared.npy import Array
from page.shared.outputs.curves import lines_chart
from page.shared.outputs.figures import caption, grid_rows, histogram_figure, picture_figure
from page.shared.outputs.pictures import picture
from page.shared.outputs.renderers.base import OutputContext, Renderer, Settings
from page.shared.outputs.renderers.curve import is_line
from page.shared.outputs.renderers.scores import scores_figure
from page.shared.outputs.tensors import grid, histogram


def _draw(context: OutputContext, settings: Settings) -> Html:
    array = context.array
    shown = [scores_figure(context), _picture(array), _curve(array), _histogram(array)]
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
            grid_rows(table),
            h("tr", h("th", "") if table.starts else None, [h("td", "⋮") for _ in table.rows[0]])
            if table.more_rows
            else None,
            class_="grid",
        ),
        h("p", f"at {table.where} of the leading dimensions", class_="note")
        if table.where
        else None,
        h("p", "Each line starts with the index of its first value.", class_="note")
        if table.starts
        else None,
    )


RENDERER = Renderer("overview", "Overview", lambda context: True, _draw)
