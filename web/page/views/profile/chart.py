"""Bars on rows, as an inline SVG that scrolls; `profile.js` shows the bar under the pointer.

Positions are in percent, so zooming changes only the width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from page.html.markup import Html, h
from page.html.units import plural

ROW, GAP = 22, 5  # pixels
HINT = "Point at a bar, or go there with the arrow keys, to see what it is."
LEAST = 0.02  # percent of the width: so narrow a bar can still be seen where there is room


@dataclass(frozen=True)
class Bar:
    """A bar from `start` on, in the unit of the chart's `total`. `kind` gives the colour."""

    row: int
    start: float
    length: float
    kind: str
    text: str


def chart(
    name: str, label: str, rows: Sequence[str], bars: Sequence[Bar], total: float, zoom: int = 1
) -> Html:
    """Return a chart; `name` is for ids, `label` describes it; keys step through the bars."""
    height = len(rows) * (ROW + GAP) - GAP
    return h(
        "div",
        h(
            "div",
            h(
                "div",
                [h("span", text, title=text) for text in rows],
                class_="profile-rows",
                aria_hidden="true",
            ),
            h(
                "div",
                h(
                    "svg",
                    [_rect(bar, max(total, 1e-9)) for bar in bars],
                    width=f"{100 * zoom}%",
                    height=height,
                    role="img",
                    aria_label=label,
                ),
                id=f"{name}-box",
                class_="profile-box",
                tabindex="0",
                role="group",
                aria_label=f"{label}. Arrow keys go from bar to bar.",
            ),
            class_="profile-chart",
        ),
        h(
            "p",
            HINT,
            data_hint=HINT,
            id=f"{name}-told",
            class_="profile-told note",
            aria_live="polite",
            data_keep=True,
        ),
        class_="profile-charted",
    )


def _rect(bar: Bar, total: float) -> Html:
    return h(
        "rect",
        h("title", bar.text),
        x=f"{100 * bar.start / total:.4f}%",
        y=bar.row * (ROW + GAP),
        width=f"{max(LEAST, 100 * bar.length / total):.4f}%",
        height=ROW,
        class_=f"bar-{bar.kind}",
    )


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
    text = f"{plural(len(group), first.kind)}, from “{first.text}” to “{last.text}”"
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
