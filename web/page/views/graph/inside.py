"""The details of a call: arguments, tensors, constants, kernels with their WGSL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from page.html.markup import Html, h, render
from page.html.tables import scrolled
from page.html.units import bytes_text, number_text, plural, shape_text, us_text
from page.outputs.figures import histogram_figure
from page.views.graph.boxes import call_link
from page.views.graph.choices import PLACES, Act
from page.views.graph.drawn import short
from page.views.graph.tints import Times, Tints
from webpte.report import Argument, GraphKernel, GraphValue, Histogram, MethodGraph, Node

Counted = Mapping[str, Histogram | None]  # by constant; None while it is being counted
_MOST_READERS = 8
_LONGEST = 400  # characters of an argument


def inside_view(
    graph: MethodGraph,
    node: Node,
    tints: Tints,
    counted: Counted,
    shaders: Collection[int],
    seen: Html,
    act: Act,
) -> Html:
    """Return the details; `shaders`: kernels whose WGSL is shown; `seen`: values of a run."""
    return h(
        "aside",
        h(
            "div",
            h("h3", f"{node.id} {short(node.op)}", class_="graph-op"),
            h("button", "Close", type="button", class_="quiet", data_act=act("close")),
            class_="card-head",
        ),
        _facts(node, tints),
        _arguments(node.arguments) if node.arguments else None,
        _tensors(graph, node, act),
        seen,
        [
            _constant(graph.values[key], counted, act)
            for key in dict.fromkeys(node.inputs)
            if graph.values[key].constant is not None
        ],
        [_kernel(kernel, at, at in shaders, act) for at, kernel in enumerate(node.kernels)],
        class_="graph-inside",
        id="graph-inside",
        aria_label=f"Call {node.id}, {node.op}",
        tabindex="-1",
    )


def _facts(node: Node, tints: Tints) -> Html:
    taken = tints.times.of((node,)) if tints.times is not None else None
    facts = [
        ("operator", node.op),
        ("label in errors", node.label),
        ("device", PLACES.get(node.where, node.where)),
        ("reason", node.why),
        ("part of", node.layer),
        ("delegate", None if node.delegate is None else str(node.delegate)),
        ("time", None if taken is None or tints.times is None else _time(taken, tints.times)),
    ]
    return h("dl", [[h("dt", name), h("dd", text)] for name, text in facts if text], class_="facts")


def _time(taken: float, times: Times) -> str:
    return f"{us_text(taken)}, {100 * taken / (times.total or 1):.3g} % of all calls"


def _table(caption: str, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> Html:
    """Return a table whose first column holds row headings."""
    head = h("tr", [h("th", name, scope="col") for name in headings])
    body = [
        h("tr", h("th", row[0], scope="row"), [h("td", cell) for cell in row[1:]]) for row in rows
    ]
    table = h("table", h("caption", caption), h("thead", head), h("tbody", body))
    return scrolled(caption, table)


def _arguments(arguments: Sequence[Argument]) -> Html:
    rows = [(one.name, one.kind, _argument_text(one)) for one in arguments]
    return _table("Arguments", ("name", "kind", "value"), rows)


def _argument_text(argument: Argument) -> str:
    if argument.values:
        return ", ".join(argument.values)
    if argument.value is None:
        return "none"
    if isinstance(argument.value, bool | int | float):
        return number_text(argument.value)
    text = str(argument.value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _tensors(graph: MethodGraph, node: Node, act: Act) -> Html:
    rows: list[tuple[object, ...]] = []
    for key in dict.fromkeys((*node.inputs, *node.outputs)):
        value = graph.values[key]
        given = key in node.outputs
        role = "out" if given else "in, changed" if key in node.changes else "in"
        ends = graph.readers(key) if given else graph.writers(key)
        others = [end for end in ends if end.id != node.id]
        links: list[object] = [call_link(end, act) for end in others[:_MOST_READERS]]
        if len(others) > _MOST_READERS:
            links.append(f" and {len(others) - _MOST_READERS} more")
        live = str(value.number) if value.kind == "number" else shape_text(value.shape)
        largest = "" if value.kind == "number" else shape_text(value.largest)
        rows.append((key, role, value.kind, value.dtype, live, largest, render(links)))
    headings = ("value", "role", "kind", "dtype", "live", "largest", "from or to")
    return _table("Values", headings, rows)


# ---- constants


def _constant(value: GraphValue, counted: Counted, act: Act) -> Html:
    constant = value.constant
    assert constant is not None
    what = f"{constant.dtype} {shape_text(constant.shape)}, {bytes_text(constant.nbytes)}"
    histogram = counted.get(value.key)
    if histogram is not None:
        shown = _histogram(histogram, value.key)
    elif value.key in counted:
        shown = h("p", "Counting …", class_="note")
    else:
        shown = h(
            "button",
            f"Histogram of {value.key}",
            type="button",
            data_act=act("count"),
            data_key=value.key,
        )
    title = h("h3", f"Constant {value.key} ", h("span", constant.name or "", class_="name count"))
    return h("section", title, h("p", what, class_="type"), shown, class_="graph-constant")


def _histogram(histogram: Histogram, key: str) -> Html:
    span = f"{number_text(histogram.low)} to {number_text(histogram.high)}"
    told = f"{span}, mean {number_text(histogram.mean)}, std {number_text(histogram.std)}"
    odd = [
        plural(histogram.zeros, "zero"),
        f"{histogram.nans} NaN" if histogram.nans else "",
        f"{histogram.infinities} infinite" if histogram.infinities else "",
    ]
    caption = f"{told}; {', '.join(filter(None, odd))}"
    return histogram_figure(histogram.counts, f"Histogram of {key}: {told}", caption)


# ---- kernels


def _kernel(kernel: GraphKernel, at: int, opened: bool, act: Act) -> Html:
    grid = " × ".join(map(str, kernel.grid))
    params = [(name, "param", _param_text(value)) for name, value in kernel.params.items()]
    params += [(name, "override", number_text(value)) for name, value in kernel.overrides.items()]
    params += [(name, "type", text) for name, text in kernel.types.items()]
    return h(
        "section",
        h("h3", f"Kernel {kernel.name} ", h("span", f"grid {grid}", class_="count")),
        _table(f"Parameters of {kernel.name}", ("name", "kind", "value"), params)
        if params
        else None,
        h(
            "button",
            f"WGSL of {kernel.name}",
            type="button",
            data_act=act("wgsl"),
            data_kernel=at,
            aria_expanded="true" if opened else "false",
        ),
        h("pre", h("code", kernel.wgsl), tabindex="0", class_="listing") if opened else None,
        class_="graph-kernel",
    )


def _param_text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_param_text(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_param_text, value)) + "]"
    return number_text(value)
