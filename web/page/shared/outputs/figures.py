"""Small figures that several sections use: bars, tiles, plots and captions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from page.shared.html.markup import Html, h
from page.shared.html.units import plural
from page.shared.outputs.pictures import Picture
from page.shared.outputs.tensors import Grid

_TALL = 60  # of a histogram, in its own units
_CURVE = 480, 120  # of a loss curve, in its own units
_SMOOTH = 5  # steps whose mean loss is told
_LEAST = 1.0  # of that: a bin that holds anything stays visible, however tall its neighbour is


def bar(percent: float, height: int = 4, fill: str = "gpu") -> Html:
    """Return a bar that fills this percentage of its rail."""
    shape = {"height": height, "rx": height // 2}
    return h(
        "svg",
        h("rect", width="100%", **shape, class_="rail"),
        h("rect", width=f"{percent:.1f}%", **shape, class_=f"fill-{fill}"),
        width="100%",
        height=height,
        aria_hidden="true",
    )


def tile(label: str, value: str, note: object, kind: str | None = None) -> Html:
    """Return a tile with one large number; `kind` is its CSS class."""
    return h(
        "div",
        h("span", label, class_="label"),
        h("strong", value, class_=kind),
        h("span", note, class_="note"),
        class_="tile",
    )


def plot(inside: object, size: tuple[int, int], label: str, kind: str) -> Html:
    """Return an SVG in its own units (across, down), stretched to the available width."""
    return h(
        "svg",
        inside,
        viewBox=f"0 0 {size[0]} {size[1]}",
        preserveAspectRatio="none",
        class_=kind,
        role="img",
        aria_label=label,
    )


def caption(*texts: str) -> Html:
    """Return a caption: one text, or several spread from left to right."""
    if len(texts) == 1:
        return h("figcaption", *texts)
    return h("figcaption", [h("span", text) for text in texts], class_="ends")


def histogram_figure(counts: Sequence[int], label: str, *captions: str) -> Html:
    """Return a histogram."""
    most = max(counts, default=0) or 1
    heights = [max(_LEAST, _TALL * count / most) if count else 0.0 for count in counts]
    bars = [
        h("rect", x=at, y=f"{_TALL - tall:.2f}", width="0.9", height=f"{tall:.2f}")
        for at, tall in enumerate(heights)
    ]
    drawn = plot(bars, (len(counts), _TALL), label, "histogram")
    return h("figure", drawn, caption(*captions))


def line_figure(
    heights: Sequence[float], size: tuple[int, int], label: str, kind: str, *captions: str
) -> Html:
    """Return a line through heights of 0 to 1, from the left edge to the right."""
    width, tall = size
    step = width / max(len(heights) - 1, 1)
    points = " ".join(f"{at * step:.1f},{tall * (1 - up):.1f}" for at, up in enumerate(heights))
    drawn = plot(h("polyline", points=points), size, label, kind)
    return h("figure", drawn, caption(*captions))


def loss_figure(losses: Sequence[float], kind: str) -> Html:
    """Return the curve of the losses of a training, and the mean of the last losses."""
    top = max(losses)
    now = float(np.mean(losses[-_SMOOTH:]))
    told = f"Loss {now:.3f} after {plural(len(losses), 'step')}"
    groups = np.array_split(np.array(losses), min(len(losses), _CURVE[0]))
    return line_figure(
        [float(group.mean()) / top for group in groups],
        _CURVE,
        f"{told}; it was {losses[0]:.3f} at first",
        kind,
        f"Loss {losses[0]:.3f} at first",
        told,
    )


def zoomed(inside: Html, name: str, label: str = "", kind: str = "", **attributes: object) -> Html:
    """Return content that can be enlarged; `zoom.js` moves it. `name` is its id; without a `label`
    something inside has the focus. The attribute `data_full` is the act that brings all pixels."""
    how = "zoom with + and -, move with the arrow keys, 0 shows all of it"
    return h(
        "div",
        h("div", inside, class_="zoom-inside"),
        id=name,
        class_=f"zoom {kind}".strip(),
        tabindex="0" if label else None,
        role="group" if label else None,
        aria_label=f"{label}: {how}" if label else None,
        title="Double-click or pinch to zoom in; then scroll to zoom, drag to move",
        data_zoom="",
        **attributes,
    )


def picture_figure(made: Picture, of: str) -> Html:
    """Return a figure of a picture; `of` describes the picture for screen readers."""
    return h(
        "figure",
        h(
            "img",
            src=made.url,
            width=made.width,
            height=made.height,
            alt=f"{made.kind} of {of}",
            class_=f"picture {'wide' if made.width >= made.height else 'tall'}",
        ),
        caption(f"{made.kind[0].upper()}{made.kind[1:]}: {made.caption}"),
    )


def grid_rows(table: Grid) -> list[Html]:
    """Return the rows of a table of values; rows of a long vector begin with an index."""
    return [
        h(
            "tr",
            h("th", table.starts[at], scope="row") if table.starts else None,
            [h("td", text) for text in line],
            h("td", "…") if table.more_columns else None,
        )
        for at, line in enumerate(table.rows)
    ]
