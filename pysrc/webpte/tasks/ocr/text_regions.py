"""Regions of text from a map of probabilities, by differentiable binarization (DB).

map > threshold  ->  connected parts  ->  smallest rectangles  ->  good ones, enlarged
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from webpte.tasks.ocr.rectangles import from_upper_left, grown, inside, smallest_rectangle

Array = np.ndarray
_MOST = 1000  # regions of a picture
_LEAST_SIDE = 3  # regions within so many pixels of the map's height are in the same line
_SAME_LINE = 10  # pixels down within which regions are of one line


@dataclass(frozen=True)
class TextRegion:
    """A region of text: its corners (4, 2) clockwise from the upper left, in pixels."""

    corners: Array
    score: float


def find_regions(
    likely: Array, height: int, width: int, *, threshold: float, least_score: float, growth: float
) -> list[TextRegion]:
    """Return the regions of a map (rows, columns) in a picture of this size, in reading order.

    threshold    probability from which a pixel of the map is text
    least_score  least mean probability in a region
    growth       how much regions grow, since a map shows them too small
    """
    rows, columns = likely.shape
    found = []
    for points in connected_parts(thickened(likely > threshold))[:_MOST]:
        rectangle, side = smallest_rectangle(points)
        if side < _LEAST_SIDE:
            continue
        box = from_upper_left(rectangle)
        score = mean_inside(likely, box)
        if score < least_score:
            continue
        rectangle, side = smallest_rectangle(grown(box, growth))
        if side < _LEAST_SIDE + 2:
            continue
        box = from_upper_left(rectangle) / (columns, rows) * (width, height)
        corners = np.trunc(np.clip(np.rint(box), 0, (width - 1, height - 1)))
        corners = from_upper_left(corners).astype(np.float32)
        sides = np.linalg.norm(corners[[1, 3]] - corners[0], axis=1)
        if (sides.astype(int) > _LEAST_SIDE).all():
            found.append(TextRegion(corners, score))
    return in_reading_order(found)


def thickened(marks: Array) -> Array:
    """Return marks that spread by a pixel to the right and down."""
    wide = marks.copy()
    wide[:, 1:] |= marks[:, :-1]
    both = wide.copy()
    both[1:] |= wide[:-1]
    return both


def connected_parts(marks: Array) -> list[Array]:
    """Return the end points (x, y) of each row of each connected part; corners connect, too.

    These points have the part's hull. The last part that a scan meets comes first.
    """
    padded = np.zeros((marks.shape[0], marks.shape[1] + 2), np.int8)
    padded[:, 1:-1] = marks
    change = np.diff(padded, axis=1)
    row, start = np.nonzero(change == 1)
    end = np.nonzero(change == -1)[1] - 1  # runs of marks, row by row, including both ends
    if not len(row):
        return []
    parent = np.arange(len(row))

    def root(at: int) -> int:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = int(parent[at])
        return at

    first = np.searchsorted(row, np.arange(marks.shape[0] + 1))  # first run of each row
    for line in range(1, marks.shape[0]):
        above, now = int(first[line - 1]), int(first[line])
        last = int(first[line + 1])
        while above < int(first[line]) and now < last:
            if start[above] <= end[now] + 1 and start[now] <= end[above] + 1:
                one, other = root(above), root(now)
                parent[max(one, other)] = min(one, other)
            if end[above] < end[now]:
                above += 1
            else:
                now += 1
    label = np.array([root(at) for at in range(len(row))])
    order = np.argsort(label, kind="stable")
    cuts = np.nonzero(np.diff(label[order]))[0] + 1
    parts = [
        np.concatenate([np.stack([start[at], row[at]], 1), np.stack([end[at], row[at]], 1)])
        for at in np.split(order, cuts)
    ]
    return parts[::-1]


def mean_inside(likely: Array, box: Array) -> float:
    """Return the mean of a map in a box (4, 2)."""
    rows, columns = likely.shape
    left, top = np.clip(np.floor(box.min(0)).astype(int), 0, (columns - 1, rows - 1))
    right, bottom = np.clip(np.ceil(box.max(0)).astype(int), 0, (columns - 1, rows - 1))
    part = likely[top : bottom + 1, left : right + 1]
    within = inside(np.trunc(box - (left, top)), *part.shape)
    return float(part[within].mean()) if within.any() else 0.0


def in_reading_order(regions: list[TextRegion]) -> list[TextRegion]:
    """Return regions line by line, each from left to right.

    A region belongs to the line of the region above it if it starts only a few pixels lower.
    """
    if not regions:
        return []
    starts = np.array([region.corners[0] for region in regions])  # (regions, 2): x, y
    down = np.argsort(starts[:, 1], kind="stable")
    steps = np.diff(starts[down, 1], prepend=starts[down[0], 1]) >= _SAME_LINE
    order = down[np.lexsort((starts[down, 0], np.cumsum(steps)))]
    return [regions[at] for at in order.tolist()]
