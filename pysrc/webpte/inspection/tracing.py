"""Builds the result of `Program.trace` from the records of a timed run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from webpte.engine.rewrite.validate import resolve_ops
from webpte.engine.run.timings import TimedDelegateCall, TimedKernel, Timings
from webpte.inspection.report import MethodGraph, Node, TimedStep, TimeSpan, Trace, Work
from webpte.inspection.report.timeline import GPU, HOST
from webpte.inspection.report.work import work_of

Nodes = Mapping[tuple[int, int | None], Node]


def build_trace(
    graph: MethodGraph, timings: Timings, device: str, started: float, ended: float
) -> Trace:
    """Build the trace of the run between two times of `perf_counter`."""
    nodes = {(node.place, node.call): node for node in graph.nodes}
    works = _works(timings, nodes)
    spans = [*_host_spans(timings, nodes, started), *_gpu_spans(timings, nodes, started)]
    return Trace(
        graph.program,
        graph.method,
        device,
        timings.clocked,
        (ended - started) * 1e6,
        tuple(sorted(spans, key=lambda span: (span.start, -span.duration))),
        tuple(_steps(timings, nodes, works)),
    )


def _works(timings: Timings, nodes: Nodes) -> dict[int, Work]:
    """Map nodes to the work of the calls inside of delegates that compute something."""
    entered: dict[int, TimedDelegateCall] = {each.place: each for each in timings.entered}
    ops = {place: resolve_ops(each.graph) for place, each in entered.items()}
    works = {}
    for (place, index), node in nodes.items():
        if place in entered and index is not None and node.where in ("gpu", "host"):
            graph, live = entered[place].graph, entered[place].live
            op = ops[place][index]
            works[node.id] = work_of(op, op.bind(graph.calls[index], graph, live))
    return works


def _host_spans(timings: Timings, nodes: Nodes, start: float) -> Iterator[TimeSpan]:
    for each in timings.host_spans:
        node = nodes[each.place, each.call].id if each.kind == "host" else None
        yield TimeSpan(
            HOST,
            each.kind,
            each.name,
            (each.start - start) * 1e6,
            (each.end - each.start) * 1e6,
            node,
            each.nbytes,
        )


def _gpu_spans(timings: Timings, nodes: Nodes, start: float) -> Iterator[TimeSpan]:
    """Return spans of kernels in sequence, from the time of their submission on."""
    for since, kernels in groupby(timings.kernels, key=lambda kernel: kernel.since):
        listed = list(kernels)
        at = (since - start) * 1e6
        if not timings.clocked:
            taken = (listed[0].until - since) * 1e6
            yield TimeSpan(GPU, "kernels", f"{len(listed)} kernels, not timed", at, taken)
            continue
        for kernel in listed:
            duration = kernel.microseconds or 0.0
            node = nodes[kernel.place, kernel.call]
            yield TimeSpan(GPU, "kernel", kernel.label, at, duration, node.id)
            at += duration


def _steps(timings: Timings, nodes: Nodes, works: Mapping[int, Work]) -> Iterator[TimedStep]:
    """Yield the timed steps; a call's work is attributed to its longest dispatch."""

    def call_of(kernel: TimedKernel) -> tuple[float, int, int]:
        return kernel.since, kernel.place, kernel.call

    for _, kernels in groupby(timings.kernels, key=call_of):
        listed = list(kernels)
        longest = max(listed, key=lambda kernel: kernel.microseconds or 0.0)
        for kernel in listed:
            node = nodes[kernel.place, kernel.call]
            work = works.get(node.id) if kernel is longest else None
            yield TimedStep(
                node.id, node.op, kernel.label, node.layer, GPU, kernel.microseconds, work
            )
    for each in timings.host_spans:
        if each.kind == "host":
            node = nodes[each.place, each.call]
            spent = (each.end - each.start) * 1e6
            name = f"host: {each.name}"
            yield TimedStep(node.id, node.op, name, node.layer, HOST, spent, works.get(node.id))
