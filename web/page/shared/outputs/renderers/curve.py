"""An output as lines along one of its dims: signals, sequences, spectra."""

from __future__ import annotations

import numpy as np

from page.shared.html.markup import Html, h
from page.shared.html.units import count_text, number_text
from page.shared.npy import Array
from page.shared.outputs.curves import lines_chart
from page.shared.outputs.renderers.base import (
    OutputContext,
    Renderer,
    Settings,
    choice_field,
    is_numeric,
    one_of,
    pointed,
    slider,
    whole,
)

LINES = 6  # drawn at once: more colours are hard to tell apart
_LEAST = 3  # points of a line


def _fits(context: OutputContext) -> bool:
    return is_numeric(context.array) and max(context.array.shape, default=0) >= _LEAST


def is_line(array: Array) -> bool:
    """Tell whether an array is one row that is long enough to be a signal."""
    return is_numeric(array) and array.ndim > 0 and array.size == max(array.shape) >= 32


def _axis(context: OutputContext, settings: Settings) -> int:
    """Return the dim that goes across: the longest, unless another was chosen."""
    shape = context.array.shape
    longest = max(range(len(shape)), key=lambda dim: (shape[dim], dim))
    options = [str(dim) for dim, size in enumerate(shape) if size >= _LEAST]
    return int(one_of(settings, "along", options, str(longest)))


def _lines(context: OutputContext, settings: Settings) -> tuple[Array, int, list[list[int]]]:
    """Return the drawn (lines, points), the number of all lines, and the index of each."""
    array, axis = context.array, _axis(context, settings)
    rest = tuple(size for dim, size in enumerate(array.shape) if dim != axis)
    rows = np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])
    first = whole(settings, "line", 0, 0, len(rows) - 1)
    shown = rows[first : first + LINES]
    places = [
        [int(one) for one in np.unravel_index(first + at, rest)] if rest else []
        for at in range(len(shown))
    ]
    return shown, len(rows), places


def _draw(context: OutputContext, settings: Settings) -> Html:
    shape, axis = context.array.shape, _axis(context, settings)
    shown, count, places = _lines(context, settings)
    axes = {
        str(dim): f"dim {dim} ({count_text(size)})"
        for dim, size in enumerate(shape)
        if size >= _LEAST
    }
    first = whole(settings, "line", 0, 0, count - 1)
    label = f"lines {first + 1} to {first + len(shown)} of {count_text(count)}"
    controls = [
        choice_field(context, "along", "along", axes, str(axis)) if len(axes) > 1 else None,
        slider(context, "line", label, first, (0, max(0, count - LINES)))
        if count > LINES
        else None,
    ]
    names = [str(place) for place in places] if count > 1 else []
    return h(
        "figure",
        h("div", controls, class_="controls") if any(controls) else None,
        pointed(
            context,
            lines_chart(shown),
            f"Curve of {context.output.name} along dim {axis}, {plural_lines(len(shown))}",
            (1, shape[axis]),
            "curve",
        ),
        _legend(names) if names else None,
        h("figcaption", f"Dim {axis} across, 0 to {count_text(shape[axis] - 1)}"),
    )


def plural_lines(count: int) -> str:
    return f"{count} lines" if count > 1 else "one line"


def _legend(names: list[str]) -> Html:
    def entry(at: int, name: str) -> Html:
        dash = h("rect", width="14", height="4", y="4", rx="2", class_=f"line-{at}")
        return h("li", h("svg", dash, width="14", height="12", aria_hidden="true"), name)

    return h("ul", [entry(at, name) for at, name in enumerate(names)], class_="legend")


def _point(context: OutputContext, settings: Settings, x: float, y: float) -> str:
    shown, count, places = _lines(context, settings)
    at = min(int(x * shown.shape[1]), shown.shape[1] - 1)
    values = [
        (f"{place} " if count > 1 else "") + number_text(line[at].item())
        for place, line in zip(places, shown, strict=True)
    ]
    return f"at {at}: {', '.join(values)}"


RENDERER = Renderer(
    "curve", "Curve", _fits, _draw, best=lambda context: context.card.curve, point=_point
)
