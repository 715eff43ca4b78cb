"""Shapes to teach, drawn from slightly shaky strokes, and PyTorch's losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from support.cases.cases import Array

SIDE = 28
Points = Sequence[tuple[float, float]]

CIRCLE: Points = [(math.cos(t), math.sin(t)) for t in np.linspace(0, 2 * math.pi, 14)]
SHAPES: dict[str, Points] = {
    "circle": CIRCLE,
    "square": [(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)],
    "triangle": [(0, -1), (1, 1), (-1, 1), (0, -1)],
    "zigzag": [(-1, -0.5), (-0.5, 0.5), (0, -0.5), (0.5, 0.5), (1, -0.5)],
    "cross": [(-1, -1), (1, 1), (0, 0), (1, -1), (-1, 1)],
}

# Ten steps on BATCH by PyTorch 2.13's autograd, and its AdamW without bias corrections
# (webpte_export.samples.teach.losses prints them).
# fmt: off
PYTORCH_LOSSES = [
    1.63343, 1.46996, 1.30354, 1.14234, 0.98441, 0.81481, 0.63586, 0.47635, 0.34520, 0.23687,
]
# fmt: on


def placed(points: Points, rng: np.random.Generator) -> Array:
    """Return the points of a shape in pixels, with random position, size, rotation and noise."""
    size, turn = rng.uniform(5, 10), rng.uniform(-0.25, 0.25)
    middle = rng.uniform(-3, 3, 2) + SIDE / 2
    shaken = np.array(points, float) + rng.normal(0, 0.07, (len(points), 2))
    turned = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    return np.asarray(shaken * size @ turned.T + middle)


def drawn(points: Array) -> Array:
    """Draw lines of about two pixels through points (n, 2), as (SIDE, SIDE) with ink 1."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    grid = np.stack([columns, rows], -1).astype(float)
    distance = np.full((SIDE, SIDE), np.inf)
    for start, end in pairwise(points):
        way = end - start
        along = np.clip((grid - start) @ way / (way @ way + 1e-9), 0, 1)
        nearest = start + along[..., None] * way
        distance = np.minimum(distance, np.linalg.norm(grid - nearest, axis=-1))
    return np.clip(1.5 - distance, 0, 1).astype(np.float32)


def examples(count: int, seed: int, shapes: Sequence[str] = tuple(SHAPES)) -> tuple[Array, Array]:
    """Return `count` drawings of each shape, (n, 1, SIDE, SIDE), and labels (n,)."""
    rng = np.random.default_rng(seed)
    pictures = [drawn(placed(SHAPES[name], rng)) for name in shapes for _ in range(count)]
    labels = np.repeat(np.arange(len(shapes), dtype=np.int32), count)
    return np.stack(pictures)[:, None], labels


def batch(size: int) -> tuple[Array, Array]:
    """Return the batch of the ten steps."""
    pictures, labels = examples(size // len(SHAPES) + 1, seed=4)
    return pictures[:size], labels[:size]


def first_weights(shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Return the initial weights and moments of the ten steps."""
    rng = np.random.default_rng(11)
    state: list[Array] = []
    for shape in shapes:
        weight = rng.normal(0, 0.05, shape).astype(np.float32)
        state += [weight, np.zeros_like(weight), np.zeros_like(weight)]
    return state
