"""Several traced runs side by side: the pinned runs, and the shown run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from page.shared.html.markup import Html, choice, h
from page.shared.html.tables import table
from page.shared.html.units import count_text, plural, us_text
from page.views.profile.timeline import BY, KINDS, RUNS, shown_name
from webpte.inspection.report import RowPair, TimelineRow, Trace

_NOTHING = "-"


@dataclass(frozen=True)
class TracedRun:
    """A run that was traced; runs side by side may be of other programs, methods and devices."""

    trace: Trace
    run: str  # "first" or "again"

    @property
    def text(self) -> str:
        trace = self.trace
        return (
            f"{trace.program}, {trace.method} on {trace.device}, {RUNS[self.run]}: "
            f"{us_text(trace.microseconds)}"
        )


def stacked(pinned: Sequence[TracedRun], shown: TracedRun) -> dict[str, TracedRun]:
    """Return the pinned runs and the shown run by letters, each run once, in the order of the
    timeline."""
    runs = [*(one for one in pinned if one.trace is not shown.trace), shown]
    return dict(zip(ascii_uppercase, runs, strict=False))


def runs_view(runs: Mapping[str, TracedRun], act: Callable[[str], str]) -> Html:
    """Return the list of the stacked runs; the last is the run that is shown."""
    *pinned, shown = runs
    return h(
        "ul",
        [
            h("li", f"{letter}: {runs[letter].text} ",
              h("button", "Unpin", type="button", class_="quiet", data_act=act("unkeep"),
                data_at=at, aria_label=f"Unpin {letter}"))
            for at, letter in enumerate(pinned)
        ],
        h("li", f"{shown}, shown: {runs[shown].text}"),
        class_="note profile-runs",
    )  # fmt: skip


def pair_view(
    runs: Mapping[str, TracedRun], baseline: str, by: str, act: Callable[[str], str]
) -> Html:
    """Compare the shown run with one of the pinned runs, the baseline."""
    *pinned, shown = runs
    letters = baseline, shown
    before, after = (runs[letter].trace for letter in letters)
    return h(
        "div",
        h("h3", f"{shown} against {baseline}"),
        choice("Baseline", {one: f"{one}: {runs[one].text}" for one in pinned}, baseline,
               "profile-by", data_act=act("baseline"), name="baseline")
        if len(pinned) > 1
        else None,
        _parts(before, after, letters),
        _rows(before, after, by, letters),
        class_="profile-table",
    )  # fmt: skip


Letters = tuple[str, str]  # of the baseline and of the shown run


def _parts(before: Trace, after: Trace, letters: Letters) -> Html:
    """Compare the parts of the run, and the whole."""
    kinds = [kind for kind in KINDS if before.time_of(kind) or after.time_of(kind)]
    times = [(kind, before.time_of(kind), after.time_of(kind)) for kind in kinds]
    times.append(("the whole run", before.microseconds, after.microseconds))
    rows = [[name, us_text(a), us_text(b), *_change(a, b)] for name, a, b in times]
    caption = f"{' and '.join(letters)}, by part of the run"
    return table(caption, ["part", *letters, *_changes(letters)], rows)


def _changes(letters: Letters) -> tuple[str, str]:
    a, b = letters
    return f"{b} - {a}", f"{b} / {a}"


def _rows(before: Trace, after: Trace, by: str, letters: Letters) -> Html:
    pairs = after.against(before, by)
    only = [sum(pair.after is None for pair in pairs), sum(pair.before is None for pair in pairs)]
    caption = f"{' and '.join(letters)} by {BY[by]}, what changed most first"
    if any(only):
        listed = plural(sum(only), "row")
        caption += f"; {listed} {'is' if sum(only) == 1 else 'are'} in one of them alone"
    counts = [f"count {letter}" for letter in letters]
    headings = [BY[by], *counts, *letters, *_changes(letters)]
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
