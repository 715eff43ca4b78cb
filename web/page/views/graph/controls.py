"""The controls above the graph: stage, drawing, search, colours and their legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from page.shared.html.markup import Html, h
from page.shared.html.units import count_text, plural
from page.views.graph.choices import DRAWINGS, Act, Choices
from page.views.graph.names import short
from page.views.graph.outline import OutlineCall
from page.views.graph.sources import GraphSource
from page.views.graph.tints import Tints
from webpte.inspection.report import MethodGraph

NO_CLOCK = "This adapter has no timestamp queries: kernels cannot be timed."
KEYS = (
    "Arrow keys follow edges · Enter opens · + and − zoom · 0 fits · Shift+arrows move · "
    "F full window · Click, then scroll to zoom"
)


def controls_view(
    choices: Choices, act: Act, has_folds: bool, found: int, source: GraphSource
) -> Html:
    """Return the controls; `found` is the number of search results."""
    return h(
        "div",
        _switch("drawing", choices.drawing, DRAWINGS, "Diagram or list", act),
        _switch("stage", choices.stage, source.stages, "Which graph", act)
        if source.stages
        else None,
        _search(choices, act, found),
        h(
            "div",
            h("span", "colour by", class_="label"),
            _switch("colour", choices.colour, source.colours, "Colour by", act),
            class_="graph-colour",
        )
        if source.colours
        else None,
        _folds(act)
        if has_folds and (choices.drawing == "drawn" or not choices.searching)
        else None,
        class_="graph-controls",
    )


def _switch(name: str, chosen: str, words: Mapping[str, str], label: str, act: Act) -> Html:
    buttons = [
        h(
            "button",
            text,
            type="button",
            data_act=act(name),
            data_value=value,
            aria_pressed="true" if value == chosen else "false",
        )
        for value, text in words.items()
    ]
    return h("div", buttons, class_="tabs", role="group", aria_label=label)


def _search(choices: Choices, act: Act, found: int) -> Html:
    """Return the search field; Enter goes to the next match."""
    field = h(
        "input",
        type="text",
        value=choices.text,
        data_act=act("search"),
        placeholder="Enter: next, Shift+Enter: previous",
        autocomplete="off",
        spellcheck="false",
    )
    steps = None
    if choices.searching:
        at = "" if choices.match is None or not found else f"{count_text(choices.match + 1)} of "
        nothing = None if found else "true"
        steps = h(
            "span",
            h("button", "‹", type="button", data_act=act("step"), data_by="-1",
              aria_label="Previous match", aria_disabled=nothing),
            h("span", f"{at}{count_text(found)}", class_="count"),
            h("button", "›", type="button", data_act=act("step"), data_by="1",
              aria_label="Next match", aria_disabled=nothing),
            class_="graph-steps",
        )  # fmt: skip
    label = h("label", h("span", "Search operators, values or dtypes"), field)
    return h("form", label, steps, class_="graph-search", data_act=act("step"), data_by="1")


def _folds(act: Act) -> Html:
    buttons = [
        h("button", text, type="button", class_="quiet", data_act=act(name))
        for name, text in (("unfold", "Expand all"), ("fold", "Collapse all"))
    ]
    return h("div", buttons, class_="graph-folds")


def summary_view(
    device: str, graph: MethodGraph, choices: Choices, matches: Sequence[OutlineCall]
) -> Html:
    """Return the size of the graph, or the result of a search."""
    if choices.searching:
        told = f"{plural(len(matches), 'call')} of {count_text(len(graph.nodes))} found"
        inside = [call for call in matches if call.holds]
        if inside:
            holds = ", ".join(dict.fromkeys(short(op) for call in inside for op in call.holds))
            are = "is a fused call that contains" if len(inside) == 1 else "are fused and contain"
            told += f"; {count_text(len(inside))} of them {are} {holds}"
    else:
        told = f"{plural(len(graph.nodes), 'call')}, {plural(len(graph.values), 'value')}"
        told += "".join(f", {group.name} × {group.count}" for group in graph.layers)
    if device == "numpy" and choices.stage == "planned":
        told += ". NumPy runs all on the host: kernels are shown on WebGPU."
    return h("p", told, class_="note", role="status")


def drawing_tools(full: bool, act: Act) -> Html:
    """Return the buttons that the drawing's script handles, even while Python is busy."""
    tools = (
        ("in", "+", "Zoom in"),
        ("out", "−", "Zoom out"),
        ("fit", "Fit", "Fit the whole drawing into view"),
        ("save", "Save SVG", "Save SVG: the drawing as a file"),
    )
    buttons = [
        h("button", text, type="button", data_draw=name, aria_label=label, title=label)
        for name, text, label in tools
    ]
    window = h(
        "button",
        "Exit full window" if full else "Full window",
        type="button",
        data_act=act("full"),
        aria_pressed="true" if full else "false",
        aria_keyshortcuts="F",
    )
    return h("div", buttons, window, class_="graph-tools", role="group", aria_label="Drawing")


def legend_view(choices: Choices, tints: Tints, act: Act, source: GraphSource) -> Html:
    """Return the legend of the colours; for times that are not measured, how to measure them."""
    trace, busy = source.trace, source.busy
    clock = source.clock if trace is None else trace.timed
    if choices.colour != "time" or tints.times is not None:
        again = choices.colour == "time"
        return h(
            "div", tints.legend(), _measure(act, "Profile again", busy) if again else None,
            class_="graph-meaning",
        )  # fmt: skip
    if choices.stage != "planned":
        text = "Times are of the optimized graph."
        button = h("button", "Optimized graph", type="button", data_act=act("stage"),
                   data_value="planned")  # fmt: skip
    elif not clock or trace is not None:
        text, button = NO_CLOCK if not clock else "The last profile was of other calls.", None
        button = _measure(act, "Profile again", busy) if clock else None
    else:
        text = "Not profiled yet: one run with the current inputs."
        button = _measure(act, "Profile", busy)
    return h("div", h("p", text, class_="note"), button, class_="graph-meaning")


def _measure(act: Act, text: str, busy: bool) -> Html:
    away = "true" if busy else None
    return h("button", text, type="button", data_act=act("measure"), aria_disabled=away)
