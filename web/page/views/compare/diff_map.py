"""A heat map of where two arrays differ, in the plane of the worst element."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from page.shared.html.markup import Html, h
from page.shared.html.units import number_text
from page.shared.npy import Array
from page.shared.outputs.pictures import MAX_SIDE, picture

_SCALE = 64  # steps of the bar that explains the colours
_MARK = 0.04  # of the longer side: how large the ring around the worst element is


@dataclass(frozen=True)
class Plane:
    """|actual - wanted| of one plane; infinite where only one of them is finite."""

    gaps: Array  # (rows, columns)
    worst: tuple[int, int]
    caption: str


def gaps_of(actual: Array, wanted: Array) -> Array:
    """Return |actual - wanted|, where NaN equals NaN and an infinity the same infinity."""
    one, two = actual.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        same = (one == two) | (np.isnan(one) & np.isnan(two))
        gaps = np.where(same, 0.0, np.abs(one - two))
    return np.where(np.isnan(gaps), np.inf, gaps)


def plane_of(actual: Array, wanted: Array, worst: tuple[int, ...]) -> Plane | None:
    """Return the last two dims around the worst element; a vector is folded into rows."""
    if actual.shape != wanted.shape or not worst:
        return None
    lead = worst[:-2]
    gaps = gaps_of(actual[lead], wanted[lead])
    at = worst[-2:]
    where = f"at {list(lead)} of the leading dimensions, " if lead else ""
    if gaps.ndim == 2 and min(gaps.shape) > 1:
        return Plane(gaps, (at[0], at[1]), f"{where}rows down, columns across")
    flat, index = gaps.reshape(-1), max(at)  # one of two dims has size 1, so its index is 0
    width = int(np.ceil(np.sqrt(flat.size)))
    rows = -(-flat.size // width)
    padded = np.zeros(rows * width)
    padded[: flat.size] = flat
    folded = padded.reshape(rows, width)
    caption = f"{where}{flat.size:,} elements in rows of {width:,}"
    return Plane(folded, (index // width, index % width), caption)


def pooled(gaps: Array, side: int = MAX_SIDE) -> tuple[Array, tuple[int, int]]:
    """Shrink a plane by the largest value of each block, so that a single wrong element stays
    visible.

    Returns the plane and the (rows, columns) of a block.
    """
    step = [-(-size // side) for size in gaps.shape]
    rows, columns = (-(-size // each) for size, each in zip(gaps.shape, step, strict=True))
    padded = np.zeros((rows * step[0], columns * step[1]))
    padded[: gaps.shape[0], : gaps.shape[1]] = gaps
    blocks = padded.reshape(rows, step[0], columns, step[1])
    return blocks.max(axis=(1, 3)), (step[0], step[1])


def diff_map(actual: Array, wanted: Array, worst: tuple[int, ...]) -> Html | None:
    """Draw the differences; None for a few elements, or if the shapes differ."""
    plane = plane_of(actual, wanted, worst)
    if plane is None or plane.gaps.size < 16:
        return None
    blocks, step = pooled(plane.gaps)
    made = picture(blocks)
    bar = picture(np.broadcast_to(np.linspace(0, 1, _SCALE), (2, _SCALE)))
    if made is None or bar is None:
        return None
    y, x = (index // each for index, each in zip(plane.worst, step, strict=True))
    ring = max(1.0, _MARK * max(made.width, made.height))
    strange = " Magenta: only one of the two is a finite number." if np.isinf(blocks).any() else ""
    drawn = h(
        "svg",
        h("image", href=made.url, width=made.width, height=made.height),
        h("circle", cx=x + 0.5, cy=y + 0.5, r=f"{ring:.2f}", class_="compare-ring"),
        viewBox=f"0 0 {made.width} {made.height}",
        role="img",
        aria_label=f"Map of the differences, worst at {list(worst)}",
        class_="compare-map",
    )
    return h(
        "figure",
        drawn,
        h("img", src=bar.url, alt="", class_="compare-scale"),
        h(
            "div",
            h("span", number_text(made.low)),
            h("span", number_text(made.high)),
            class_="ends number",
        ),
        h(
            "figcaption",
            f"|difference|, {plane.caption}; the ring is around the worst element.{strange}",
        ),
    )
