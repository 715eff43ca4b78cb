"""Boxes that a model finds, drawn over the input picture.

An output of (boxes, 4 to 6) has the corners of each box, then its score and its class, if any.
Scores and classes may also be separate outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from page.shared.html.markup import Html, h
from page.shared.html.tables import scrolled
from page.shared.html.units import number_text, plural
from page.shared.npy import Array
from page.shared.outputs.pictures import data_url, png_rgb
from page.shared.outputs.renderers.base import (
    OutputContext,
    Renderer,
    Settings,
    choice_field,
    one_of,
    real,
    slider,
)
from page.shared.outputs.renderers.mask import colour_of
from page.shared.outputs.renderers.picture import planes_of

FORMS = {
    "xyxy": "left, top, right, bottom",
    "xywh": "left, top, width, height",
    "cxcywh": "center x, center y, width, height",
    "yxyx": "top, left, bottom, right",
}
UNITS = {"pixels": "pixels of the input", "unit": "normalized (0 to 1)"}
DRAWN = 100  # boxes at most, the boxes with the highest scores
LISTED = 12
_MOST = 100_000  # an output with more rows is not a list of boxes
_USUAL_SCORE = 0.5


@dataclass(frozen=True)
class Box:
    """A box in pixels of the picture."""

    row: int
    left: float
    top: float
    right: float
    bottom: float
    score: float | None
    kind: int | None


def _rows(context: OutputContext) -> Array | None:
    """Return the output as (boxes, 4 to 6), or None."""
    rows = planes_of(context.array)
    if rows.ndim != 2 or not 4 <= rows.shape[1] <= 6 or rows.dtype.kind not in "fiu":
        return None
    return rows if 0 < len(rows) <= _MOST else None


def _beside(context: OutputContext, kinds: str) -> Array | None:
    """Return another output with one value per box, of one of these kinds."""
    rows = _rows(context)
    for other in context.others:
        array = other.array
        if rows is not None and array.dtype.kind in kinds and array.size == len(rows):
            return array.reshape(-1)
    return None


def _size(context: OutputContext) -> tuple[int, int]:
    """Return the (height, width) in which boxes are drawn."""
    if context.backdrop is not None:
        return context.picture().size
    rows = _rows(context)
    assert rows is not None
    finite = np.nan_to_num(rows[:, :4].astype(np.float64), posinf=0, neginf=0)
    side = max(1, int(np.ceil(finite.max())))
    return side, side


def boxes_of(context: OutputContext, settings: Settings) -> list[Box]:
    """Return all boxes, the highest scores first."""
    rows = _rows(context)
    assert rows is not None  # as `fits` says
    corners = _corners(rows[:, :4].astype(np.float64), _form(context, settings))
    if _unit(context, settings) == "unit":
        height, width = _size(context)
        corners = corners * np.array([width, height, width, height])
    scores = rows[:, 4] if rows.shape[1] > 4 else _beside(context, "f")
    kinds = rows[:, 5] if rows.shape[1] > 5 else _beside(context, "iu")
    order = np.argsort(-scores, kind="stable") if scores is not None else np.arange(len(rows))
    boxes = []
    for at in order.tolist():
        left, top, right, bottom = corners[at].tolist()
        if np.isfinite(corners[at]).all():
            score = None if scores is None else float(scores[at])
            kind = None if kinds is None or not np.isfinite(kinds[at]) else int(kinds[at])
            boxes.append(Box(at, left, top, right, bottom, score, kind))
    return boxes


def _corners(values: Array, form: str) -> Array:
    """Return (boxes, 4) of left, top, right, bottom."""
    a, b, c, d = values.T
    if form == "xywh":
        return np.stack([a, b, a + c, b + d], axis=1)
    if form == "cxcywh":
        return np.stack([a - c / 2, b - d / 2, a + c / 2, b + d / 2], axis=1)
    return np.stack([b, a, d, c], axis=1) if form == "yxyx" else values


def _form(context: OutputContext, settings: Settings) -> str:
    told = context.card.boxes if context.card.boxes in FORMS else "xyxy"
    return one_of(settings, "boxes", list(FORMS), told)


def _unit(context: OutputContext, settings: Settings) -> str:
    rows = _rows(context)
    assert rows is not None
    small = np.nan_to_num(np.abs(rows[:, :4].astype(np.float64))).max() <= 2
    return one_of(settings, "unit", list(UNITS), "unit" if small else "pixels")


def _draw(context: OutputContext, settings: Settings) -> Html:
    boxes = boxes_of(context, settings)
    scored = bool(boxes) and boxes[0].score is not None
    scores = [box.score for box in boxes if box.score is not None]
    least = min(scores, default=0.0)
    most = max(scores, default=1.0)
    usual = context.card.threshold or (_USUAL_SCORE if least >= 0 and most <= 1 else least)
    limit = real(settings, "score", usual, min(least, usual), max(most, usual))
    kept = [box for box in boxes if box.score is None or box.score >= limit]
    controls = [
        choice_field(context, "boxes", "box format", FORMS, _form(context, settings)),
        choice_field(context, "unit", "units", UNITS, _unit(context, settings)),
    ]
    if scored:
        ends = (min(0.0, least), max(1.0, most))
        label, step = f"score at least {number_text(limit)}", (ends[1] - ends[0]) / 100
        controls.append(slider(context, "score", label, limit, ends, step))
    height, width = _size(context)
    thick = max(height, width) / 250
    backdrop = None
    if context.backdrop is not None:
        backdrop = h("image", href=data_url(png_rgb(context.backdrop)), width=width, height=height,
                     preserveAspectRatio="none")  # fmt: skip
    told = f"{plural(len(kept), 'box', 'boxes')} of {len(boxes)}"
    drawn = h(
        "svg",
        backdrop or h("rect", width=width, height=height, class_="empty-picture"),
        [_rect(context, box, thick) for box in reversed(kept[:DRAWN])],
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=f"{told}, over the input picture",
        class_="boxes",
    )
    more = f", the first {DRAWN} are drawn" if len(kept) > DRAWN else ""
    return h(
        "figure",
        h("div", controls, class_="controls"),
        drawn,
        h("figcaption", f"{told}{more}"),
        _list(context, kept[:LISTED]),
    )


def _rect(context: OutputContext, box: Box, thick: float) -> Html:
    colour = "#{:02x}{:02x}{:02x}".format(*colour_of(box.kind or 0))
    width, height = max(0.0, box.right - box.left), max(0.0, box.bottom - box.top)
    line = max(box.top - 1.5 * thick, 5 * thick)  # of the text, within the picture
    return h(
        "g",
        h("title", _told(context, box)),
        h("rect", x=f"{box.left:.1f}", y=f"{box.top:.1f}", width=f"{width:.1f}",
          height=f"{height:.1f}", fill="none", stroke=colour, stroke_width=f"{thick:.2f}"),
        h("text", _told(context, box, short=True), x=f"{box.left + thick:.1f}", y=f"{line:.1f}",
          font_size=f"{6 * thick:.1f}"),
        class_="box",
    )  # fmt: skip


def _told(context: OutputContext, box: Box, short: bool = False) -> str:
    parts = []
    if box.kind is not None:
        known = 0 <= box.kind < len(context.labels)
        parts.append(context.labels[box.kind] if known else f"class {box.kind}")
    if box.score is not None:
        parts.append(f"{box.score:.2f}")
    if not short:
        parts.append(f"row {box.row}")
    return " ".join(parts)


def _list(context: OutputContext, boxes: list[Box]) -> Html | None:
    if not boxes:
        return None
    heads = ("box", "left", "top", "right", "bottom")
    rows = [
        h("tr", h("th", _told(context, box), scope="row"),
          [h("td", number_text(round(side, 1)))
           for side in (box.left, box.top, box.right, box.bottom)])
        for box in boxes
    ]  # fmt: skip
    head = h("tr", [h("th", head, scope="col") for head in heads])
    return scrolled("Boxes", h("table", h("thead", head), h("tbody", rows), class_="grid paged"))


def _fits(context: OutputContext) -> bool:
    rows = _rows(context)
    return rows is not None and (context.backdrop is not None or bool(context.card.boxes))


RENDERER = Renderer("boxes", "Boxes", _fits, _draw, best=lambda context: bool(context.card.boxes))
