"""The timeline of runs, both runs by part, and rows by kernel, op or layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from page.shared.html.markup import Html, choice, h
from page.shared.html.tables import table
from page.shared.html.units import bytes_text, count_text, plural, us_text
from page.views.profile.chart import Bar, call_act, chart, legend, thinned
from webpte.inspection.report import Rates, TimelineRow, TimeSpan, Trace
from webpte.inspection.report.timeline import GPU, HOST, WITHOUT_CLOCK

MOST_BARS = 1000  # of a row; a patch of the page must stay quick
KERNEL_COLOURS = 9  # of profile.css; more kernels share one
BY = {"kernel": "kernel", "op": "op", "layer": "layer", "where": "device"}
RUNS = {"first": "first run", "again": "second run"}  # two runs in a row
PLACES = {"gpu": "GPU", "host": "host (Python)"}
KINDS = {
    "prepare": "shapes, plan and pipelines",
    "upload": "copying inputs",
    "submit": "encoding and submitting commands",
    "wait": "waiting for results",
    "host": "ops in NumPy",
    "kernel": "on the GPU, while the host waits",
    "kernels": "all on the GPU together, while the host waits",
}
_NO_TIME = "-"


# ---- the timeline


def timeline_view(runs: Mapping[str, Trace]) -> Html:
    """Return the bars of runs, one below the other on the same axis; the last is the run whose
    calls are in the graph. A single run needs no letter."""
    traces = list(runs.values())
    colours = kernel_colours(traces)
    # GPU and host have different clocks: kernels may end after the run, by a little.
    total = max(
        max([one.microseconds, *(span.start + span.duration for span in one.spans)])
        for one in traces
    )
    bars, names = list[Bar](), list[str]()
    for letter, trace in runs.items():
        ops = {step.node: step.op for step in trace.steps}
        first = f"{letter} " if len(runs) > 1 else ""
        for track in (HOST, GPU):
            spans = [span for span in trace.spans if span.track == track]
            bars += [
                Bar(
                    len(names),
                    span.start,
                    span.duration,
                    colours.get(span.name, span.kind) if span.kind == "kernel" else span.kind,
                    f"{first and letter + ': '}{_span_text(span, ops)}",
                    span.node if trace is traces[-1] else None,
                )
                for span in spans
            ]
            names += [first + {HOST: "Host", GPU: "GPU"}[track]] if spans else []
    kinds = [kind for kind in KINDS if any(s.kind == kind for one in traces for s in one.spans)]
    what = "a run" if len(runs) == 1 else f"{len(runs)} runs"
    label = f"Timeline of {what} of {us_text(total)}, {plural(len(bars), 'bar')}"
    shown = thinned(bars, total, MOST_BARS)
    return h(
        "div",
        chart("profile-time", label, names, shown, total, timed=True),
        legend([(kind, f"{kind}: {KINDS[kind]}") for kind in kinds if kind != "kernel"]),
        _kernel_legend(traces, colours) if colours else None,
        class_="profile-timeline",
    )


def kernel_colours(traces: Sequence[Trace]) -> dict[str, str]:
    """Return the colour of each kernel in all runs: the slowest have separate colours."""
    spent: dict[str, float] = {}
    for span in (span for trace in traces for span in trace.spans):
        if span.kind == "kernel":
            spent[span.name] = spent.get(span.name, 0.0) + span.duration
    ranked = sorted(spent, key=lambda name: -spent[name])
    return {
        name: f"kernel-{at}" if at < KERNEL_COLOURS else "kernel-more"
        for at, name in enumerate(ranked)
    }


def _kernel_legend(traces: Sequence[Trace], colours: dict[str, str]) -> Html:
    """Return the kernels with their colours and shares of the kernels' time."""
    spent: dict[str, float] = {}
    for span in (span for trace in traces for span in trace.spans):
        if span.kind == "kernel":
            colour = colours[span.name]
            spent[colour] = spent.get(colour, 0.0) + span.duration
    whole = sum(spent.values()) or 1.0
    names = {colour: name for name, colour in colours.items()}
    others = sum(colour == "kernel-more" for colour in colours.values())
    names["kernel-more"] = plural(others, "other kernel")
    shown = [
        (colour, f"{names[colour]} {100 * time / whole:.0f} %") for colour, time in spent.items()
    ]
    shown.sort(key=lambda one: one[0])
    return h("div", h("h3", "Kernels on the GPU"), legend(shown), class_="profile-kernels")


def _span_text(span: TimeSpan, ops: dict[int, str]) -> str:
    name = span.name if span.name == span.kind else f"{span.kind}: {span.name}"
    told = [name, us_text(span.duration), f"at {us_text(span.start)}"]
    if span.node is not None:
        op = ops.get(span.node, "")
        told.append(f"call {span.node:,}" + (f", {op}" if op and op != span.name else ""))
    if span.nbytes:
        told.append(bytes_text(span.nbytes))
    return ", ".join(told)


def clock_notes(trace: Trace) -> list[Html]:
    """Return notes on how times were measured."""
    if trace.device == "numpy":
        text = "On NumPy all runs on the host: there are no kernels, and no GPU to time them."
        return [h("p", text, class_="notice notice-warn")]
    if not trace.timed:
        text = f"No GPU clock: {WITHOUT_CLOCK}."
        return [h("p", text, class_="notice notice-warn")]
    text = (
        "The GPU times each kernel on its own. Start times are not measured, so kernels are drawn "
        "one after the other. Browsers may round these times to 0.1 ms."
    )
    return [h("p", text, class_="note")]


# ---- the first run and the next


def stages_table(first: Trace, again: Trace | None) -> Html:
    """Return the times of the first and the second run by part."""
    runs = [first] if again is None else [first, again]
    kernels = sum(1 for span in runs[-1].spans if span.kind == "kernel")
    kinds = [kind for kind in KINDS if any(run.time_of(kind) for run in runs)]
    rows = [(f"{kind}: {KINDS[kind]}", [run.time_of(kind) for run in runs]) for kind in kinds]
    rows.append(("the whole run", [run.microseconds for run in runs]))
    headings = [RUNS["first"]] if again is None else [*RUNS.values()]
    caption = f"Where the time of a run goes, with {plural(kernels, 'kernel')} of the GPU"
    return table(
        caption,
        ["part of the run", *headings],
        [[name, *(us_text(time) if time else _NO_TIME for time in times)] for name, times in rows],
    )


# ---- rows by kernel, op, layer or place


def rows_view(trace: Trace, by: str, act: Callable[[str], str], best: Rates | None = None) -> Html:
    """Return the table of rows; `best` are the adapter's measured peak rates."""
    rows, calls = trace.by(by), _longest_calls(trace, by)
    limit = ["% of peak"] if best is not None else []  # on the left, where it is in sight
    headings = [BY[by], "count", "time", "share", *limit, "bytes", "GB/s", "FLOPs", "GFLOP/s"]
    caption = (
        f"{plural(sum(row.count for row in rows), 'step')} of {trace.method} by {BY[by]}, "
        f"{'the longest first' if trace.timed else 'without times of kernels'}"
    )
    return h(
        "div",
        choice("Table by", BY, by, "profile-by", data_act=act("by"), name="by"),
        table(caption, headings, [_cells(row, by, best, calls.get(row.name)) for row in rows]),
        h(
            "p",
            "Bytes count each tensor that a call reads or writes once, in the row of its longest "
            "kernel. FLOPs are counted for GEMMs, convolutions and attention.",
            class_="note",
        ),
        h("p", best_text(best), class_="note") if best is not None else None,
        class_="profile-table",
    )


def _longest_calls(trace: Trace, by: str) -> dict[str, int]:
    """Return the call that takes the longest of each row; layers and devices have no calls."""
    if by not in ("kernel", "op"):
        return {}
    steps = sorted(trace.steps, key=lambda step: step.microseconds or 0.0)
    return {step.kernel if by == "kernel" else step.op: step.node for step in steps}


def best_text(best: Rates) -> str:
    """Explain the column “% of peak”."""
    return (
        f"Measured here: this adapter moves {_rate(best.gigabytes_per_second)} GB/s in a large "
        f"copy and does {_rate(best.gigaflops)} GFLOP/s in a large GEMM. “% of peak” is how near "
        "a row comes to either of them. “≥ 100 %” is faster than these, for example because its "
        "tensors stay in caches."
    )


def shown_name(name: str, by: str) -> str:
    unnamed = {"none": "in no layer"} if by == "layer" else PLACES if by == "where" else {}
    return unnamed.get(name, name)


def _cells(row: TimelineRow, by: str, best: Rates | None, call: int | None) -> list[str]:
    part = row.part_of(best) if best is not None else None
    limit = [] if best is None else [_peak_text(part)]
    name = shown_name(row.name, by)
    if call is not None:
        told = f"Show {'the longest of these calls' if row.count > 1 else 'the call'} in the graph"
        name = h("button", name, type="button", class_="quiet", title=told, **call_act(call))
    return [
        name,
        count_text(row.count),
        us_text(row.microseconds),
        _NO_TIME if row.share is None else f"{100 * row.share:.1f} %",
        *limit,
        bytes_text(row.nbytes) if row.nbytes else _NO_TIME,
        _rate(row.gigabytes_per_second),
        _NO_TIME if row.flops is None else amount_text(row.flops),
        _rate(row.gigaflops),
    ]


def _peak_text(part: float | None) -> str:
    """Return a share of the peak; caches can be faster than the memory that it was measured on."""
    if part is None:
        return _NO_TIME
    return "≥ 100 %" if part >= 1 else f"{_rate(100 * part)} %"


def _rate(value: float | None) -> str:
    return _NO_TIME if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def amount_text(count: float) -> str:
    """Return a count: 1234567 -> "1.23 M"."""
    for unit in ("", " k", " M", " G"):
        if count < 1000:
            return f"{count:.3g}{unit}"
        count /= 1000
    return f"{count:,.3g} T"
