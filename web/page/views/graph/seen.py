"""The values of a call in a run: numbers, a picture, a histogram, the first values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from page.core.session import Held
from page.shared.html.markup import Html, h
from page.shared.html.tables import scrolled
from page.shared.html.units import number_text, plural, shape_text
from page.shared.outputs.figures import grid_rows, histogram_figure, picture_figure
from page.shared.outputs.pictures import picture
from page.shared.outputs.tensors import grid, histogram
from page.views.graph.choices import Act
from page.views.graph.names import Names
from webpte.engine.dtypes import array_dtype
from webpte.inspection.report import KeptValues, MethodGraph, NamedArray, Node

# Bytes of all that is kept of one run. Above that, only the call that is looked at is kept.
MOST_BYTES = 48 << 20
_ROWS, _COLUMNS = 6, 6


@dataclass(frozen=True)
class SeenRun:
    """The values of one run, and the inputs and execution count that they are valid for."""

    held: Held
    executions: int
    calls: dict[int, KeptValues]


def wanted_nodes(graph: MethodGraph, chosen: int) -> list[int]:
    """Return the calls whose values to record: all if they fit into memory, else one."""
    inside = [node for node in graph.nodes if node.call is not None]
    sizes = {
        key: int(np.prod(value.shape, dtype=np.int64)) * array_dtype(value.dtype).itemsize
        for key, value in graph.values.items()
    }
    total = sum(sizes[key] for node in inside for key in (*node.inputs, *node.outputs))
    return [node.id for node in inside] if total <= MOST_BYTES else [chosen]


def seen_view(
    node: Node, stage: str, kept: KeptValues | None, busy: bool, names: Names, act: Act
) -> Html:
    """Return the values of a call; `kept` is None if none were recorded."""
    if stage != "planned" or node.call is None:
        text = (
            "Values are shown in the optimized graph."
            if stage != "planned"
            else "This kernel runs on the host, outside of delegates: its values are not recorded."
        )
        return _section(h("p", text, class_="note"))
    if kept is None:
        button = h(
            "button",
            "Show values",
            type="button",
            data_act=act("values"),
            aria_disabled="true" if busy else None,
        )
        text = "Runs the method once with the current inputs; caches keep their values."
        return _section(button, h("p", text, class_="note"))
    outputs = [_array("out", one, names) for one in kept.outputs]
    return _section(outputs, [_array("in", one, names) for one in kept.inputs])


def _section(*content: object) -> Html:
    return h("section", h("h3", "Values of a run"), content, class_="graph-seen")


def _array(role: str, named: NamedArray, names: Names) -> Html:
    facts, array = named.facts, named.array
    numbers = f"{number_text(facts.low)} to {number_text(facts.high)}"
    if array.size != 1:
        numbers += f", mean {number_text(facts.mean)}"
    if facts.nans or facts.infinities:
        numbers += f", {facts.nans} NaN, {facts.infinities} infinite"
    name = names.of(named.key)
    label = f"{role} {name}"
    what = h("span", f"{facts.dtype} {shape_text(facts.shape)}", class_="type")
    shown_name = h("code", name, title=f"value {named.key}")
    title = h("summary", h("span", role, class_="tag tag-alias"), " ", shown_name, " ", what, " ",
              h("span", numbers if array.size else "empty", class_="count"))  # fmt: skip
    shown = array.size > 1
    return h(
        "details",
        title,
        h(
            "div",
            _picture(array, label) if shown else None,
            _histogram(array, label) if shown else None,
            _first_values(array, label) if array.size else None,
            class_="graph-array",
        ),
        open=role == "out",
    )


def _picture(array: np.ndarray, label: str) -> Html | None:
    made = picture(array)
    return None if made is None else picture_figure(made, label)


def _histogram(array: np.ndarray, label: str) -> Html | None:
    spread = histogram(array) if array.size >= 8 else None
    if spread is None:
        return None
    told = f"{number_text(spread.low)} to {number_text(spread.high)}"
    return histogram_figure(spread.counts, f"Histogram of {label}: {told}", told)


def _first_values(array: np.ndarray, label: str) -> Html:
    table = grid(array, _ROWS, _COLUMNS)
    more = "" if array.size <= _ROWS * _COLUMNS else f" of {plural(array.size, 'value')}"
    caption = f"First values{more}"
    if table.where:
        caption += f", at {table.where} of the leading dimensions"
    shown = h("table", h("caption", caption), h("tbody", grid_rows(table)), class_="grid")
    return scrolled(f"Values of {label}", shown)
