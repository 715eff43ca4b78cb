"""GPU memory of a method: by kind, over the steps of a run, and against the limits."""

from __future__ import annotations

from collections.abc import Sequence

from page.shared.html.markup import Html, h
from page.shared.html.tables import table
from page.shared.html.units import bytes_text, plural, shape_text
from page.shared.outputs.figures import bar, caption, plot, tile
from page.views.profile.chart import Bar, chart, thinned
from webpte.inspection.report import Buffer, MemoryReport
from webpte.inspection.report.memory import KINDS, PlacedTensor

SHOWN_LANES = 24  # buffers whose turns are drawn
SHOWN_BUFFERS = 60  # in the table
MOST_BARS = 800
LIMITS = {
    "maxBufferSize": "largest buffer of this adapter",
    "maxStorageBufferBindingSize": "largest buffer that a kernel can bind",
}
_CHART = 100  # height of the curve in its own units


def memory_view(report: MemoryReport, ops: Sequence[str]) -> Html:
    """Return the memory report; `ops` are the operators of the nodes, in order."""
    return h(
        "div",
        _tiles(report, ops),
        _kinds(report),
        _limits(report),
        _needed(report, ops),
        _turns(report, ops),
        _buffers(report),
        class_="profile-memory",
    )


def _tiles(report: MemoryReport, ops: Sequence[str]) -> Html:
    kinds = report.by_kind
    given = kinds.get("activations", 0)
    at = report.peak_node
    tiles = [
        ("On the GPU", report.nbytes, plural(len(report.buffers), "buffer")),
        ("Weights", kinds.get("weights", 0), "constants of the file"),
        ("Caches", kinds.get("state", 0), "and other state, from call to call"),
        ("Peak of activations", report.peak, "" if at is None else f"at {_node(at, ops)}"),
        (
            "Allocated for activations",
            given,
            f"{bytes_text(report.unshared)} without buffer reuse",
        ),
    ]
    shown = [tile(label, bytes_text(nbytes), note) for label, nbytes, note in tiles]
    return h("div", shown, class_="tiles")


def _node(at: int, ops: Sequence[str]) -> str:
    return f"call {at:,}, {ops[at]}" if 0 <= at < len(ops) else f"call {at:,}"


def _kinds(report: MemoryReport) -> Html:
    total = max(1, report.nbytes)
    rows = [
        _bar(kind, KINDS[kind], nbytes, total, f"{100 * nbytes / total:.1f} %")
        for kind, nbytes in report.by_kind.items()
    ]
    return h("div", h("h3", "By purpose"), h("ul", rows, class_="bars"))


def _limits(report: MemoryReport) -> Html:
    largest = report.largest
    known = {name: report.limits[name] for name in LIMITS if name in report.limits}
    if largest is None or not known:
        text = "This adapter reports no limits for buffers."
        return h("div", h("h3", "Limits"), h("p", text, class_="note"))
    rows = [
        _bar(
            name,
            f"{LIMITS[name]}: {bytes_text(limit)}",
            largest.nbytes,
            limit,
            f"{100 * largest.nbytes / limit:.2g} %",
        )
        for name, limit in known.items()
    ]
    title = f"The largest buffer ({largest.kind}) against the adapter's limits"
    return h("div", h("h3", title), h("ul", rows, class_="bars"))


def _bar(name: str, about: str, nbytes: int, whole: int, share: str) -> Html:
    return h(
        "li",
        h("span", name, class_="name"),
        h("span", bytes_text(nbytes), class_="number"),
        h("span", share, class_="number share"),
        h("span", about, class_="note profile-about"),
        bar(min(100, max(0.5, 100 * nbytes / whole)), 6),
    )


# ---- over the steps of a run


def _needed(report: MemoryReport, ops: Sequence[str]) -> Html | None:
    """Return the bytes of live activations, node by node; the line shows the allocated bytes."""
    count, given = len(report.needed), report.by_kind.get("activations", 0)
    if not count or not report.peak:
        return None
    top = max(report.peak, given)
    points = ["0,100"]
    for at, nbytes in enumerate(report.needed):
        y = f"{_CHART - _CHART * nbytes / top:.2f}"
        points += [f"{at},{y}", f"{at + 1},{y}"]
    points.append(f"{count},100")
    where = _node(report.peak_node or 0, ops)
    label = (
        f"Activations need {bytes_text(report.peak)} at most, at {where}; "
        f"{bytes_text(given)} are allocated"
    )
    line = f"{_CHART - _CHART * given / top:.2f}"
    drawn = [
        h("polygon", points=" ".join(points)),
        h("line", x1="0", x2=count, y1=line, y2=line, vector_effect="non-scaling-stroke"),
    ]
    return h(
        "figure",
        h("h3", "Activation memory over a run"),
        plot(drawn, (count, _CHART), label, "profile-needed"),
        caption("call 0", label, f"call {count - 1:,}"),
    )


def _turns(report: MemoryReport, ops: Sequence[str]) -> Html | None:
    """Return a row for each buffer with its tensors, from node to node."""
    lanes = [b for b in report.buffers if b.kind == "activations" and b.tensors]
    lanes.sort(key=lambda buffer: -buffer.nbytes)
    count = len(report.needed)
    shown = lanes[:SHOWN_LANES]
    if not shown or not count:
        return None
    bars = [bar for row, buffer in enumerate(shown) for bar in _lane(row, buffer, count, ops)]
    names = [f"{buffer.number}: {bytes_text(buffer.nbytes)}" for buffer in shown]
    more = f", the largest {SHOWN_LANES} of {len(lanes)} buffers" if len(lanes) > len(shown) else ""
    label = f"Tensors that share buffers, over {plural(count, 'call')}{more}"
    return h(
        "div",
        h("h3", "Buffer reuse", h("span", f" {label}", class_="count")),
        chart("profile-turns", label, names, thinned(bars, count + 2, MOST_BARS), count + 2),
    )


def _lane(row: int, buffer: Buffer, count: int, ops: Sequence[str]) -> list[Bar]:
    """Return a buffer's bars; the first and last column are before and after the run."""
    return [
        Bar(
            row,
            tensor.first + 1,
            max(1, min(tensor.last, count) - tensor.first + 1),
            "odd" if at % 2 else "even",
            _tensor_text(tensor, buffer, count, ops),
        )
        for at, tensor in enumerate(buffer.tensors)
    ]


def _tensor_text(tensor: PlacedTensor, buffer: Buffer, count: int, ops: Sequence[str]) -> str:
    since = "before the run" if tensor.first < 0 else _node(tensor.first, ops)
    until = "after the run" if tensor.last >= count else _node(tensor.last, ops)
    return (
        f"{tensor.value}: {tensor.dtype} {shape_text(tensor.shape)}, {bytes_text(tensor.nbytes)} "
        f"at the most, in buffer {buffer.number}, from {since} to {until}"
    )


def _buffers(report: MemoryReport) -> Html:
    listed = sorted(report.buffers, key=lambda buffer: -buffer.nbytes)
    rows = [
        [
            f"{buffer.number}",
            buffer.kind,
            bytes_text(buffer.nbytes),
            plural(len(buffer.tensors), "tensor"),
            ", ".join(buffer.shared_with) or "-",
        ]
        for buffer in listed[:SHOWN_BUFFERS]
    ]
    all_of_them = len(listed) <= SHOWN_BUFFERS
    title = f"{'All' if all_of_them else f'The largest {SHOWN_BUFFERS} of'} {len(listed)} buffers"
    headings = ["buffer", "kind", "size", "holds", "shared with method"]
    return h("details", h("summary", title), table(title, headings, rows))
