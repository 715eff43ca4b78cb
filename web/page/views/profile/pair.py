"""Two traces side by side: the baseline, A, and the shown trace, B."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from page.shared.html.markup import Html, h
from page.shared.html.tables import table
from page.shared.html.units import count_text, plural, us_text
from page.views.profile.timeline import BY, KINDS, RUNS, shown_name
from webpte.inspection.report import RowPair, TimelineRow, Trace

_NOTHING = "-"


@dataclass(frozen=True)
class BaselineTrace:
    """The trace of a baseline; others may be of other programs, methods and devices."""

    trace: Trace
    run: str  # "first" or "again"

    @property
    def text(self) -> str:
        trace = self.trace
        return (
            f"{trace.program}, {trace.method} on {trace.device}, {RUNS[self.run]}: "
            f"{us_text(trace.microseconds)}"
        )


def pair_view(before: BaselineTrace, after: BaselineTrace, by: str) -> Html:
    same = before.trace is after.trace
    note = "This is the baseline itself: trace again, or choose another run, program or device."
    return h(
        "div",
        h("h3", "Two runs side by side"),
        h(
            "ul",
            h("li", f"A, baseline: {before.text}"),
            h("li", f"B, shown: {after.text}"),
            class_="note",
        ),
        h("p", note, class_="notice notice-warn") if same else _parts(before.trace, after.trace),
        None if same else _rows(before.trace, after.trace, by),
        class_="profile-table",
    )


def _parts(before: Trace, after: Trace) -> Html:
    """Compare the parts of the run, and the whole."""
    kinds = [kind for kind in KINDS if before.time_of(kind) or after.time_of(kind)]
    times = [(kind, before.time_of(kind), after.time_of(kind)) for kind in kinds]
    times.append(("the whole run", before.microseconds, after.microseconds))
    rows = [[name, us_text(a), us_text(b), *_change(a, b)] for name, a, b in times]
    return table("A and B, by part of the run", ["part", "A", "B", "B - A", "B / A"], rows)


def _rows(before: Trace, after: Trace, by: str) -> Html:
    pairs = after.against(before, by)
    only = [sum(pair.after is None for pair in pairs), sum(pair.before is None for pair in pairs)]
    caption = f"A and B by {BY[by]}, what changed most first"
    if any(only):
        listed = plural(sum(only), "row")
        caption += f"; {listed} {'is' if sum(only) == 1 else 'are'} in one of them alone"
    headings = [BY[by], "count A", "count B", "A", "B", "B - A", "B / A"]
    return table(caption, headings, [_cells(pair, by) for pair in pairs])


def _cells(pair: RowPair, by: str) -> list[str]:
    a, b = _time(pair.before), _time(pair.after)
    counts = [
        _NOTHING if row is None else count_text(row.count) for row in (pair.before, pair.after)
    ]
    change: Sequence[str] = (_NOTHING, _NOTHING)
    if pair.difference is not None:
        change = _change(a or 0.0, b or 0.0)
    return [shown_name(pair.name, by), *counts, us_text(a), us_text(b), *change]


def _time(row: TimelineRow | None) -> float | None:
    return None if row is None else row.microseconds


def _change(a: float, b: float) -> tuple[str, str]:
    sign = "+" if b > a else "-" if b < a else ""
    return f"{sign}{us_text(abs(b - a))}", f"{b / a:.2f}" if a and b else _NOTHING
