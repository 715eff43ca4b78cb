"""Rectangles around points: hulls, smallest rectangles, and enlarged polygons."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Array = np.ndarray
_ARC_TOLERANCE = 0.25  # most pixels between a rounded corner and its arc


def convex_hull(points: Array) -> Array:
    """Return the corners (count, 2) of the hull of points (any, 2), in order."""
    order = np.lexsort((points[:, 1], points[:, 0]))
    listed = np.unique(points[order], axis=0).tolist()
    if len(listed) < 3:
        return np.array(listed, np.float64)
    halves = [_half_hull(listed), _half_hull(listed[::-1])]
    return np.array(halves[0][:-1] + halves[1][:-1], np.float64)


def _half_hull(points: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """Return the hull below points that are sorted by x."""
    kept: list[Sequence[float]] = []
    for x, y in points:
        while len(kept) > 1:
            (ax, ay), (bx, by) = kept[-2], kept[-1]
            if (bx - ax) * (y - ay) - (by - ay) * (x - ax) > 0:
                break
            kept.pop()
        kept.append((x, y))
    return kept


def smallest_rectangle(points: Array) -> tuple[Array, float]:
    """Return the corners (4, 2) of the smallest rectangle around points, and its shorter side. A
    side of the rectangle lies on a side of the hull.
    """
    hull = convex_hull(points)
    if len(hull) < 3:
        ends = hull if len(hull) == 2 else np.repeat(hull, 2, axis=0)
        return np.array([ends[0], ends[1], ends[1], ends[0]]), 0.0
    sides = np.roll(hull, -1, axis=0) - hull
    along = sides / np.linalg.norm(sides, axis=1, keepdims=True)  # (sides, 2)
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    u, v = hull @ along.T, hull @ across.T  # (points, sides)
    ends = np.stack([u.min(0), u.max(0), v.min(0), v.max(0)], axis=1)
    wide, high = ends[:, 1] - ends[:, 0], ends[:, 3] - ends[:, 2]
    best = int(np.argmin(wide * high))
    left, right, top, bottom = ends[best]
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    rectangle = np.array([a * along[best] + b * across[best] for a, b in corners])
    return rectangle, float(min(wide[best], high[best]))


def from_upper_left(corners: Array) -> Array:
    """Return corners (4, 2) clockwise, beginning with the upper of the two leftmost corners."""
    listed = corners[np.argsort(corners[:, 0], kind="stable")]
    left, right = listed[:2], listed[2:]
    left = left if left[1, 1] > left[0, 1] else left[::-1]
    right = right if right[1, 1] > right[0, 1] else right[::-1]
    return np.array([left[0], right[0], right[1], left[1]])


def grown(corners: Array, ratio: float) -> Array:
    """Return the points of a polygon grown on all sides, with rounded corners, in whole pixels.

    The polygon grows by its area times `ratio`, divided by its perimeter.
    """
    after = np.roll(corners, -1, axis=0)
    area = abs(float(np.sum(corners[:, 0] * after[:, 1] - corners[:, 1] * after[:, 0]))) / 2
    perimeter = float(np.linalg.norm(after - corners, axis=1).sum())
    distance = area * ratio / perimeter if perimeter else 0.0
    whole = np.trunc(corners)
    if distance <= 0:
        return whole
    step = math.acos(max(-1.0, 1 - min(_ARC_TOLERANCE, distance / 4) / distance)) * 2
    turns = np.arange(0, 2 * math.pi, step)
    arc = distance * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    sides = np.roll(whole, -1, axis=0) - whole
    lengths = np.linalg.norm(sides, axis=1, keepdims=True)
    normals = np.stack([sides[:, 1], -sides[:, 0]], axis=1) / np.where(lengths, lengths, 1)
    moved = [
        (whole[:, None] + arc).reshape(-1, 2),
        whole + distance * normals,
        np.roll(whole, -1, axis=0) + distance * normals,
        whole - distance * normals,
        np.roll(whole, -1, axis=0) - distance * normals,
    ]
    return np.floor(np.concatenate(moved) + 0.5)


def inside(corners: Array, height: int, width: int) -> Array:
    """Return a mask (height, width) of the pixels in a convex polygon or on its edge."""
    after = np.roll(corners, -1, axis=0)
    turn = float(np.sum(corners[:, 0] * after[:, 1] - corners[:, 1] * after[:, 0]))
    x, y = np.arange(width), np.arange(height)[:, None]
    within = np.ones((height, width), bool)
    for (ax, ay), (bx, by) in zip(corners.tolist(), after.tolist(), strict=True):
        length = math.hypot(bx - ax, by - ay)
        if length:
            side = (bx - ax) * (y - ay) - (by - ay) * (x - ax)
            within &= (side if turn >= 0 else -side) >= -0.5 * length
    return within
