"""The details of a call: arguments, tensors, constants, kernels with their WGSL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from page.shared.html.markup import Html, h, render
from page.shared.html.tables import scrolled
from page.shared.html.units import bytes_text, number_text, plural, shape_text, us_text
from page.shared.outputs.figures import histogram_figure
from page.views.graph.boxes import call_link
from page.views.graph.choices import PLACES, STAGES, Act
from page.views.graph.names import Names, short
from page.views.graph.tints import Times, Tints
from webpte.inspection.report import Argument, GraphKernel, GraphValue, Histogram, MethodGraph, Node

Counted = Mapping[str, Histogram | None]  # by constant; None while it is being counted
_MOST_READERS = 8
_LARGEST = 1.79e308  # a clamp to the largest number of all clamps nothing
_LONGEST = 400  # characters of an argument


@dataclass(frozen=True)
class CallParts:
    """A call with all that its description needs.

    linked  calls of the other graph: those it was made from, or that it became
    """

    graph: MethodGraph
    node: Node
    names: Names
    tints: Tints
    linked: Sequence[Node]


def inside_view(
    parts: CallParts, counted: Counted, shaders: Collection[int], seen: Html | None, act: Act
) -> Html:
    """Return the details; `shaders`: kernels whose WGSL is shown; `seen`: values of a run.

    First come the calls that were fused into it, then attributes and weights: they are what people
    look for.
    """
    graph, node = parts.graph, parts.node
    attributes = [one for one in node.arguments if not one.values and one.value is not None]
    return h(
        "aside",
        h(
            "div",
            h("h3", f"{node.id} {short(node.op)}", class_="graph-op"),
            h("button", "Close", type="button", class_="quiet", data_act=act("close")),
            class_="card-head",
        ),
        _linked(parts, act) if len(parts.linked) > 1 else None,
        _arguments(attributes) if attributes else None,
        _tensors(parts, act),
        _linked(parts, act) if len(parts.linked) < 2 else None,
        [
            _constant(graph.values[key], parts.names, counted, act)
            for key in dict.fromkeys(node.inputs)
            if graph.values[key].constant is not None
        ],
        seen,
        _facts(node, parts.tints),
        [_kernel(kernel, at, at in shaders, act) for at, kernel in enumerate(node.kernels)],
        class_="graph-inside",
        id="graph-inside",
        aria_label=f"Call {node.id}, {node.op}",
        tabindex="-1",
    )


def _linked(parts: CallParts, act: Act) -> Html | None:
    """Return links to the calls of the other graph; None for a graph without another."""
    if parts.graph.stage not in STAGES:
        return None
    planned = parts.graph.stage == "planned"
    title = "In the original graph" if planned else "In the optimized graph"
    if not parts.linked:
        text = (
            "Nothing: webpte has added this call."
            if planned
            else "Nothing: this call is computed at load, or needs no work."
        )
        return h("section", h("h3", title), h("p", text, class_="note"), class_="graph-linked")
    links = [
        h(
            "button",
            f"{one.id} {short(one.op)}",
            type="button",
            class_="graph-link",
            data_act=act("link"),
            data_node=one.id,
        )
        for one in parts.linked
    ]
    count = len(parts.linked)
    text = ""
    if planned and count > 1:
        text = f"{plural(count, 'call')} fused into one. "
    elif not planned and parts.linked[0].parts:
        text = "Fused with others into one call. "
    told = h("p", text, class_="note") if text else None
    return h("section", h("h3", title), told, h("div", links), class_="graph-linked")


def _facts(node: Node, tints: Tints) -> Html:
    taken = tints.times.of((node,)) if tints.times is not None else None
    facts = [
        ("operator", node.op),
        ("contains", ", ".join(_counted_parts(node)) or None),
        ("label in errors", node.label),
        ("device", PLACES.get(node.where, node.where)),
        ("reason", node.why),
        ("PyTorch line", str(node.line) if node.line else None),
        ("part of", node.layer),
        ("delegate", None if node.delegate is None else str(node.delegate)),
        ("time", None if taken is None or tints.times is None else _time(taken, tints.times)),
    ]
    return h("dl", [[h("dt", name), h("dd", text)] for name, text in facts if text], class_="facts")


def _counted_parts(node: Node) -> list[str]:
    """Return the operators in a fused call, each once, with its count."""
    counts = Counter(map(short, node.parts))
    return [f"{op} × {count}" if count > 1 else op for op, count in counts.items()]


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
    return _table("Attributes", ("name", "kind", "value"), rows)


def _argument_text(argument: Argument) -> str:
    if argument.values:
        return ", ".join(argument.values)
    if argument.value is None:
        return "none"
    if isinstance(argument.value, float) and abs(argument.value) >= _LARGEST:
        return "no limit"
    if isinstance(argument.value, bool | int | float):
        return number_text(argument.value)
    text = str(argument.value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _tensors(parts: CallParts, act: Act) -> Html:
    graph, node = parts.graph, parts.node
    rows: list[tuple[object, ...]] = []
    roles = {key: one.name for one in node.arguments for key in one.values}
    for key in dict.fromkeys((*node.inputs, *node.outputs)):
        value = graph.values[key]
        given = key in node.outputs
        role = "out" if given else roles.get(key, "in")
        if key in node.changes and role != "changed":
            role += ", changed"
        ends = graph.readers(key) if given else graph.writers(key)
        others = [end for end in ends if end.id != node.id]
        links: list[object] = [call_link(end, act) for end in others[:_MOST_READERS]]
        if len(others) > _MOST_READERS:
            links.append(f" and {len(others) - _MOST_READERS} more")
        live = str(value.number) if value.kind == "number" else shape_text(value.shape)
        largest = "" if value.kind == "number" else shape_text(value.largest)
        name = h("span", parts.names.of(key), title=f"value {key}")
        rows.append((name, role, value.kind, value.dtype, live, largest, render(links)))
    headings = ("value", "role", "kind", "dtype", "live", "largest", "from or to")
    return _table("Values", headings, rows)


# ---- constants


def _constant(value: GraphValue, names: Names, counted: Counted, act: Act) -> Html:
    constant = value.constant
    assert constant is not None
    what = f"{constant.dtype} {shape_text(constant.shape)}, {bytes_text(constant.nbytes)}"
    name, histogram = names.of(value.key), counted.get(value.key)
    if histogram is not None:
        shown = _histogram(histogram, name)
    elif value.key in counted:
        shown = h("p", "Counting …", class_="note")
    else:
        shown = h(
            "button",
            f"Histogram of {name}",
            type="button",
            data_act=act("count"),
            data_key=value.key,
        )
    kept = constant.name if constant.name and constant.name != name else None
    more = f"value {value.key} of the file" + (f", kept as {kept}" if kept else "")
    return h(
        "section",
        h("h3", f"Weight {name}"),
        h("p", what, class_="type"),
        shown,
        h("p", more, class_="note graph-stored"),
        class_="graph-constant",
    )


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
        )
        if kernel.wgsl
        else None,
        h("pre", h("code", kernel.wgsl), tabindex="0", class_="listing") if opened else None,
        class_="graph-kernel",
    )


def _param_text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_param_text(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_param_text, value)) + "]"
    return number_text(value)
