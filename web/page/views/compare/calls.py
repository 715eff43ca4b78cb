"""The table of calls: in their order or the worst first, all or only the mismatched ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from page.shared.html.markup import Html, h
from page.shared.html.tables import scrolled
from page.shared.html.units import count_text, number_text, plural
from webpte.inspection.report import CallComparison, Comparison, Difference

Act = Callable[[str], str]  # the name of a method of the panel -> the act that calls it
PAGE = 100  # rows; a thousand at once would hold up the page


@dataclass
class Listing:
    """The state of the table."""

    worst_first: bool = False
    only_off: bool = False
    rows: int = PAGE


def is_off(call: CallComparison) -> bool:
    return call.own is not None and not call.own.agrees


def listed(found: Comparison, listing: Listing) -> list[CallComparison]:
    calls = list(found.calls)
    if listing.only_off:
        calls = [call for call in calls if is_off(call)]
    if listing.worst_first:  # calls that were not compared stay at the end
        calls.sort(key=lambda call: call.own.max_abs if call.own else -1.0, reverse=True)
    return calls


def calls_card(found: Comparison, listing: Listing, act: Act) -> Html:
    calls = listed(found, listing)
    shown = calls[: listing.rows]
    switches = [
        _switch("Worst first", act("sort"), listing.worst_first),
        _switch("Mismatches only", act("filter"), listing.only_off),
    ]
    count = plural(len(calls), "call")
    if listing.only_off:
        count = f"{count_text(len(calls))} of {plural(len(found.calls), 'call')}"
    more = None
    if len(calls) > len(shown):
        left = count_text(len(calls) - len(shown))
        more = h(
            "button", f"Show more ({left} left)", type="button", data_act=act("more")
        )  # fmt: skip
    table = _table(shown, found) if shown else h("p", "No mismatched calls.", class_="soft")
    return h(
        "section",
        h(
            "div",
            h("h2", "Calls", h("span", count, class_="count")),
            h("div", switches, class_="compare-switches"),
            class_="card-head",
        ),
        table,
        more,
        class_="card compare-calls",
    )


def _switch(title: str, act: str, on: bool) -> Html:
    return h(
        "button",
        title,
        type="button",
        class_="quiet",
        data_act=act,
        aria_pressed="true" if on else "false",
    )


def _table(calls: list[CallComparison], found: Comparison) -> Html:
    drifts = any(call.drift is not None for call in found.calls)
    strange = any(call.nans or call.infinities for call in found.calls)
    layers = any(call.layer for call in found.calls)
    headings = [
        "id",
        "call",
        *(["layer"] if layers else []),
        "mismatched",
        "difference",
        "relative",
    ]
    headings += ["drift"] if drifts else []
    headings += ["NaN", "infinite"] if strange else []
    caption = (
        "Difference of each call from NumPy, given the same inputs"
        + (", and the drift: the difference added up over all calls so far" if drifts else "")
        + f". A call matches within {number_text(found.tolerance.atol)} + "
        f"{number_text(found.tolerance.rtol)}·|NumPy|."
    )
    first = found.first.call if found.first is not None else None
    return scrolled(
        "Calls",
        h(
            "table",
            h("caption", caption, class_="note"),
            h("thead", h("tr", [_heading(heading) for heading in headings])),
            h("tbody", [_row(call, call is first, layers, drifts, strange) for call in calls]),
            class_="compare-table",
        ),
    )


def _heading(text: str) -> Html:
    return h("th", text, scope="col", class_=None if text in ("call", "layer") else "number")


def _row(call: CallComparison, first: bool, layers: bool, drifts: bool, strange: bool) -> Html:
    counts = [(count_text(n) if n else "") for n in (call.nans, call.infinities)]
    return h(
        "tr",
        h("td", call.node, class_="number soft"),
        h(
            "th",
            call.op,
            h("span", "first", class_="tag tag-missing") if first else None,
            h("span", call.where, class_="tag tag-alias") if call.where != "gpu" else None,
            scope="row",
            title=call.label,
        ),
        h("td", call.layer or "", class_="soft") if layers else None,
        _off(call.own),
        _number(call.own, "max_abs"),
        _number(call.own, "max_rel"),
        _number(call.drift, "max_abs") if drifts else None,
        [h("td", count, class_="number") for count in counts] if strange else None,
        class_="compare-off" if is_off(call) else None,
    )


def _off(own: Difference | None) -> Html:
    text = "" if own is None else f"{count_text(own.wrong)} of {count_text(own.count)}"
    return h("td", text, class_="number")


def _number(difference: Difference | None, name: str) -> Html:
    text = "" if difference is None else f"{getattr(difference, name):.3g}"
    return h("td", text.replace("inf", "∞"), class_="number")
