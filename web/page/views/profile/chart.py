"""Bars on rows, as an inline SVG that scrolls; `profile.js` zooms, draws the time ruler and shows
the bar under the pointer.

Positions are in percent, so zooming changes only the width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from page.shared.html.markup import Html, h
from page.shared.html.units import plural

ROW, GAP = 22, 5  # pixels
ARROWS = "Arrow keys go from bar to bar."
KEYS = f"{ARROWS} W and S zoom, A and D move, 0 shows all."
HINT = "Point at a bar, or go there with the arrow keys, to see what it is."
LINKED = f"{HINT} A click, or Enter, shows a kernel's call in the graph."
LEAST = 0.02  # percent of the width: so narrow a bar can still be seen where there is room


@dataclass(frozen=True)
class Bar:
    """A bar from `start` on, in the unit of the chart's `total`. `kind` gives the colour; `node` is
    the call of the graph that it belongs to."""

    row: int
    start: float
    length: float
    kind: str
    text: str
    node: int | None = None


def chart(
    name: str,
    label: str,
    rows: Sequence[str],
    bars: Sequence[Bar],
    total: float,
    timed: bool = False,
) -> Html:
    """Return a chart; `name` is for ids, `label` describes it; keys step through the bars.

    A `timed` chart is in microseconds: it has a ruler, and can be zoomed and dragged.
    """
    height = len(rows) * (ROW + GAP) - GAP
    return h(
        "div",
        h(
            "div",
            h(
                "div",
                [h("span", text, title=text) for text in rows],
                class_="profile-rows profile-below-ruler" if timed else "profile-rows",
                aria_hidden="true",
            ),
            h(
                "div",
                _ruler(name) if timed else None,
                h(
                    "div",
                    h(
                        "svg",
                        [_rect(bar, max(total, 1e-9)) for bar in bars],
                        width="100%",
                        height=height,
                        role="img",
                        aria_label=label,
                    ),
                    id=f"{name}-box",
                    class_="profile-box",
                    tabindex="0",
                    role="group",
                    aria_label=f"{label}. {KEYS if timed else ARROWS}",
                    data_total=f"{total:.6g}" if timed else None,
                ),
                class_="profile-scrolled",
            ),
            class_="profile-chart",
        ),
        h(
            "p",
            LINKED if timed else HINT,
            data_hint=LINKED if timed else HINT,
            id=f"{name}-told",
            class_="profile-told note",
            aria_live="polite",
            data_keep=True,
        ),
        class_="profile-charted",
    )


def _ruler(name: str) -> Html:
    """Return the place of the ruler, which the script fills."""
    return h("div", id=f"{name}-ruler", class_="profile-ruler", data_keep=True, aria_hidden="true")


def _rect(bar: Bar, total: float) -> Html:
    return h(
        "rect",
        h("title", bar.text),
        x=f"{100 * bar.start / total:.4f}%",
        y=bar.row * (ROW + GAP),
        width=f"{max(LEAST, 100 * bar.length / total):.4f}%",
        height=ROW,
        class_=f"bar-{bar.kind}",
        **(call_act(bar.node) if bar.node is not None else {}),
    )


def call_act(node: int) -> dict[str, object]:
    """Return the attributes of an element that shows a call in the graph."""
    return {"data_act": "graph:call", "data_view": "graph", "data_node": node}


def thinned(bars: Sequence[Bar], total: float, most: int) -> list[Bar]:
    """Merge neighbouring bars that are too narrow to tell apart, to about `most` per row."""
    if len(bars) <= most:
        return list(bars)
    rows: dict[int, list[list[Bar]]] = {}
    for bar in bars:
        groups = rows.setdefault(bar.row, [])
        if groups and bar.start + bar.length - groups[-1][0].start < total / most:
            groups[-1].append(bar)
        else:
            groups.append([bar])
    return [_joined(group) for groups in rows.values() for group in groups]


def _joined(group: Sequence[Bar]) -> Bar:
    first, last = group[0], group[-1]
    if len(group) == 1:
        return first
    kind = first.kind.partition("-")[0]  # a kernel's colour has a number
    text = f"{plural(len(group), kind)}, from “{first.text}” to “{last.text}”"
    return Bar(first.row, first.start, last.start + last.length - first.start, first.kind, text)


def legend(kinds: Sequence[tuple[str, str]]) -> Html:
    """Return the legend of (kind, meaning)."""
    return h(
        "ul",
        [
            h("li", h("span", class_=f"swatch bar-{kind}", aria_hidden="true"), text)
            for kind, text in kinds
        ],
        class_="profile-legend",
    )
