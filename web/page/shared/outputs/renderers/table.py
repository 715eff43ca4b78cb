"""All values of an output, a page at a time."""

from __future__ import annotations

from page.shared.html.markup import Html, h
from page.shared.html.tables import scrolled
from page.shared.html.units import count_text, number_text
from page.shared.npy import Array
from page.shared.outputs.renderers.base import (
    OutputContext,
    Renderer,
    Settings,
    chosen_plane,
    number_field,
    plane_at,
    plane_control,
    step_button,
    whole,
)

ROWS, COLUMNS = 16, 8  # of a page
_LINE = 10  # values of a vector in one row


def _folded(array: Array) -> bool:
    """Tell whether to fold a vector into lines of ten values."""
    return array.ndim < 2 or (array.shape[-2] == 1 and array.shape[-1] > _LINE)


def _draw(context: OutputContext, settings: Settings) -> Html:
    array = context.array
    plane, _ = plane_at(array, chosen_plane(context, settings))  # (rows, columns)
    if _folded(array):
        return _vector(context, settings, plane.reshape(-1))
    rows, columns = plane.shape
    top = whole(settings, "row", 0, 0, rows - 1)
    left = whole(settings, "column", 0, 0, columns - 1)
    part = plane[top : top + ROWS, left : left + COLUMNS]
    return h(
        "div",
        h(
            "div",
            plane_control(context, settings),
            _pager(context, "row", top, rows, ROWS),
            _pager(context, "column", left, columns, COLUMNS),
            class_="controls",
        ),
        _table(part, [*range(top, top + part.shape[0])], [*range(left, left + part.shape[1])]),
        class_="rendered-table",
    )


def _vector(context: OutputContext, settings: Settings, flat: Array) -> Html:
    start = whole(settings, "row", 0, 0, flat.size - 1) // _LINE * _LINE
    part = flat[start : start + ROWS * _LINE]
    lines = [part[at : at + _LINE] for at in range(0, len(part), _LINE)]
    body = [
        h(
            "tr",
            h("th", start + _LINE * at, scope="row"),
            [h("td", number_text(value)) for value in line.tolist()],
        )
        for at, line in enumerate(lines)
    ]
    head = h("tr", h("th", ""), [h("th", f"+{at}", scope="col") for at in range(len(lines[0]))])
    return h(
        "div",
        h(
            "div",
            plane_control(context, settings),
            _pager(context, "row", start, flat.size, ROWS * _LINE, "element"),
            class_="controls",
        ),
        _paged(head, body),
        class_="rendered-table",
    )


def _table(part: Array, rows: list[int], columns: list[int]) -> Html:
    head = h("tr", h("th", ""), [h("th", at, scope="col") for at in columns])
    body = [
        h(
            "tr",
            h("th", at, scope="row"),
            [h("td", number_text(value)) for value in line.tolist()],
        )
        for at, line in zip(rows, part, strict=True)
    ]
    return _paged(head, body)


def _paged(head: Html, body: list[Html]) -> Html:
    return scrolled("Values", h("table", h("thead", head), h("tbody", body), class_="grid paged"))


def _pager(
    context: OutputContext, name: str, at: int, count: int, page: int, what: str = ""
) -> Html | None:
    """Return the controls that turn pages; None if everything is on one."""
    if count <= page:
        return None
    what = what or name
    last = (count - 1) // page * page
    return h(
        "div",
        step_button(context, name, "‹", max(0, at - page), f"{what}s before", at > 0),
        number_field(context, name, f"from {what}, of {count_text(count)}", at, count - 1),
        step_button(context, name, "›", min(last, at + page), f"{what}s after", at + page < count),
        class_="pager",
    )


RENDERER = Renderer("table", "Table", lambda context: context.array.size > 0, _draw)
