"""A run over time, as `Program.trace` returns it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from webpte.errors import InputError
from webpte.inspection.report.report import Report, ReportTable
from webpte.inspection.report.work import Work

WITHOUT_CLOCK = (
    "this GPU offers no timestamps: its kernels are listed, but only all of a submission is timed"
)
HOST, GPU = "host", "gpu"


@dataclass(frozen=True)
class TimeSpan:
    """A span of time, in microseconds from the start of the run.

    On the host, `kind` is "prepare" (shapes, plan, pipelines), "upload" (inputs are copied),
    "submit" (bytes written, commands encoded and handed over), "wait" (until the results arrive) or
    "host" (an op in NumPy). On the GPU it is "kernel": the length of each kernel is measured, its
    start is not; kernels follow each other from the submission on. Without a clock it is "kernels".
    """

    track: str  # "host" or "gpu"
    kind: str
    name: str
    start: float
    duration: float
    node: int | None = None  # node in `Program.graph`
    nbytes: int = 0  # bytes uploaded or read back


@dataclass(frozen=True)
class TimedStep:
    """A dispatch, or a call on the host.

    `work` is the work of the whole call, and is attributed to the call's longest dispatch.
    """

    node: int
    op: str
    kernel: str
    layer: str | None
    where: str
    microseconds: float | None  # None: not timed
    work: Work | None


@dataclass(frozen=True)
class Rates:
    """The best rates of a device: bytes per second that a copy reads and writes, and FLOPs per
    second of a GEMM. `webpte.inspection.kernel_rates.rates_of(device)` measures them.
    """

    gigabytes_per_second: float | None
    gigaflops: float | None


@dataclass(frozen=True)
class TimelineRow:
    """A group of steps.

    `share` is the part of the time of all steps; `nbytes` is 0 if the work is counted at other
    dispatches of the same calls.
    """

    name: str
    count: int
    microseconds: float | None
    share: float | None
    nbytes: int
    flops: int | None

    @property
    def gigabytes_per_second(self) -> float | None:
        return self.nbytes / self.microseconds / 1e3 if self.microseconds and self.nbytes else None

    @property
    def gigaflops(self) -> float | None:
        """GFLOPs per second."""
        return self.flops / self.microseconds / 1e3 if self.microseconds and self.flops else None

    def part_of(self, best: Rates) -> float | None:
        """Return the rate as a share of the best: of bytes or of FLOPs, the larger share."""
        pairs = (
            (self.gigabytes_per_second, best.gigabytes_per_second),
            (self.gigaflops, best.gigaflops),
        )
        return max((own / limit for own, limit in pairs if own and limit), default=None)


@dataclass(frozen=True)
class RowPair:
    """A row in two traces; None if a trace lacks it."""

    name: str
    before: TimelineRow | None
    after: TimelineRow | None

    @property
    def difference(self) -> float | None:
        """Microseconds that were added; a missing row counts as 0."""
        times = [0.0 if row is None else row.microseconds for row in (self.before, self.after)]
        return None if times[0] is None or times[1] is None else times[1] - times[0]


_KEYS: dict[str, Callable[[TimedStep], str]] = {
    "kernel": lambda step: step.kernel,
    "op": lambda step: step.op,
    "layer": lambda step: step.layer or "none",
    "where": lambda step: step.where,
}


@dataclass(frozen=True)
class Trace(Report):
    """A traced run. `timed`: the GPU timed its kernels; `microseconds` is the total."""

    program: str
    method: str
    device: str
    timed: bool
    microseconds: float
    spans: tuple[TimeSpan, ...]
    steps: tuple[TimedStep, ...]

    def by(self, what: str) -> list[TimelineRow]:
        """Group the steps by "kernel", "op", "layer" or "where", the longest first."""
        if what not in _KEYS:
            raise InputError(f"a trace by {what!r}; there are {', '.join(map(repr, _KEYS))}")
        groups: dict[str, list[TimedStep]] = {}
        for step in self.steps:
            groups.setdefault(_KEYS[what](step), []).append(step)
        total = sum(step.microseconds or 0.0 for step in self.steps)
        rows = [_row(name, steps, total) for name, steps in groups.items()]
        return sorted(rows, key=lambda row: -(row.microseconds or 0.0))

    def against(self, before: Trace, what: str) -> list[RowPair]:
        """Pair the rows of an earlier trace with this trace's, the largest change first."""
        old = {row.name: row for row in before.by(what)}
        new = {row.name: row for row in self.by(what)}
        pairs = [RowPair(name, old.get(name), new.get(name)) for name in {**new, **old}]
        return sorted(pairs, key=lambda pair: -abs(pair.difference or 0.0))

    def time_of(self, kind: str) -> float:
        """Sum the microseconds of all spans of a kind."""
        return sum(span.duration for span in self.spans if span.kind == kind)

    def perfetto(self) -> str:
        """Return the trace as JSON text for ui.perfetto.dev or chrome://tracing."""
        names = {HOST: (1, "Python and browser"), GPU: (2, "GPU")}
        events: list[dict[str, Any]] = [
            {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": self._title()}}
        ]
        for number, name in names.values():
            given = {"name": name}
            events.append(
                {"ph": "M", "pid": 1, "tid": number, "name": "thread_name", "args": given}
            )
        steps = {step.node: step for step in self.steps}
        for span in self.spans:
            details: dict[str, Any] = {"bytes": span.nbytes} if span.nbytes else {}
            if span.node is not None and span.node in steps:
                step = steps[span.node]
                details |= {"node": span.node, "op": step.op, "layer": step.layer or ""}
            events.append(
                {
                    "ph": "X",
                    "pid": 1,
                    "tid": names[span.track][0],
                    "name": span.name,
                    "cat": span.kind,
                    "ts": span.start,
                    "dur": span.duration,
                    "args": details,
                }
            )
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, allow_nan=False)

    def _title(self) -> str:
        return f"{self.program}, {self.method} on {self.device}"

    def table(self) -> ReportTable:
        rows = [
            (
                row.name,
                row.count,
                row.microseconds,
                None if row.share is None else 100 * row.share,
                row.nbytes or None,
                row.gigabytes_per_second,
                row.gigaflops,
            )
            for row in self.by("kernel")
        ]
        host = ", ".join(
            f"{kind} {self.time_of(kind) / 1000:.2f}"
            for kind in ("prepare", "upload", "submit", "wait", "host")
        )
        headings = ("kernel", "count", "µs", "%", "bytes", "GB/s", "GFLOP/s")
        title = f"{self._title()}: {self.microseconds / 1000:.2f} ms"
        notes = (f"host, ms: {host}", *(() if self.timed else (WITHOUT_CLOCK,)))
        return ReportTable(title, headings, rows, notes)


def _row(name: str, steps: list[TimedStep], total: float) -> TimelineRow:
    times = [step.microseconds for step in steps if step.microseconds is not None]
    spent = sum(times) if times else None
    works = [step.work for step in steps if step.work is not None]
    counted = [work.flops for work in works if work.flops is not None]
    return TimelineRow(
        name,
        len(steps),
        spent,
        spent / total if spent is not None and total else None,
        sum(work.nbytes for work in works),
        sum(counted) if counted else None,
    )
