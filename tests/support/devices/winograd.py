"""Winograd's F(2 x 2, 3 x 3) in NumPy, how far its sums may be off, and convolutions to run so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from support.cases.cases import Array
from support.cases.conv.conv_cases import conv
from support.graphs.conv_graphs import Block
from support.graphs.graphs import make_planner
from webpte.graph.graph import Graph
from webpte.ops.conv.conv_winograd import CUTS
from webpte.ops.core.target import GPU, Target, Tunable

LABELS = tuple(cut.label for cut in CUTS)

PATCH = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], np.float64)
WEIGHTS = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], np.float64)
OUTPUTS = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], np.float64)

ROUNDINGS = 14  # of a transform there and back and of slices, beside one for each input channel
UNIT = 2.0**-24


def by_patches(x: Array, weight: Array, padding: int, absolute: bool = False) -> Array:
    """The convolution in float64; `absolute`: of the absolute values of everything in it."""
    matrices = (PATCH, WEIGHTS, OUTPUTS)
    sides = x.astype(np.float64), weight.astype(np.float64)
    if absolute:
        (b, g, a), (x, weight) = map(np.abs, matrices), map(np.abs, sides)
    else:
        (b, g, a), (x, weight) = matrices, sides
    height, width = (n + 2 * padding - 2 for n in x.shape[2:])
    more = ((padding, padding + height % 2), (padding, padding + width % 2))
    padded = np.pad(x, ((0, 0), (0, 0), *more))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (4, 4), (2, 3))[:, :, ::2, ::2]
    taps = np.einsum("pi,ocij,qj->ocpq", g, weight, g)  # (O, C, 4, 4)
    patches = np.einsum("pi,nchwij,qj->nchwpq", b, windows, b)  # (N, C, H/2, W/2, 4, 4)
    sums = np.einsum("ocpq,nchwpq->nohwpq", taps, patches)
    out = np.einsum("ip,nohwpq,jq->nohiwj", a, sums, a)
    whole = out.reshape(*out.shape[:2], 2 * out.shape[2], 2 * out.shape[4])
    return np.asarray(whole[:, :, :height, :width])


def error_bound(x: Array, weight: Array, padding: int) -> Array:
    """How far each output may be off, without a bias, for float32 in any order of sums."""
    terms = x.shape[1] + ROUNDINGS
    return terms * UNIT * by_patches(x, weight, padding, absolute=True)


def choosing(graph: Graph, label: str) -> Target:
    """A GPU on which this was found the fastest wherever it was a candidate."""
    asked: list[Tunable] = []
    planner, _ = make_planner(graph, replace(GPU, asked=asked))
    planner.lower_all()
    return replace(GPU, choices=tuple((q.key, label) for q in asked if label in q.labels))


# What may be chosen: the smallest, odd sizes, several images, more than a tile has.
OFFERED = [
    conv((1, 16, 8, 8), (16, 16, 3, 3), padding=[1]),
    conv((2, 19, 9, 7), (37, 19, 3, 3), padding=[1], bias=False),
    conv((3, 33, 7, 7), (17, 33, 3, 3), padding=[2, 0], clamp=(-0.5, 0.75)),
    conv((1, 65, 13, 21), (66, 65, 3, 3)),
]
# What the kernel can do, but would not be measured for: next to nothing, and changing shapes.
SMALL = [
    conv((1, 1, 3, 3), (8, 1, 3, 3), label="one of all"),
    conv((2, 3, 1, 1), (9, 3, 3, 3), padding=[1], label="taps beyond every border"),
    conv((1, 5, 3, 12), (20, 5, 3, 3), label="one line"),
    conv((2, 4, 12, 2), (13, 4, 3, 3), padding=[0, 1]),
    conv((1, 2, 2, 3), (10, 2, 3, 3), padding=[4, 3], label="patches of zeros"),
    conv((3, 17, 12, 10), (18, 17, 3, 3), padding=[1], live=((1, 17, 5, 3), (2, 17, 7, 10))),
]
# Every kind of end, zeros around the file's input, and lines that end inside of a patch.
BLOCKS = (
    Block((17, 36), (9, 14), 3, "slope", border=(1, 2, 0, 1)),
    Block((16, 20), (9, 13), 3, "short sum"),
    Block((18, 20), (8, 9), 3, "sum, tanh", batch=2),
    Block((16, 17), (9, 9), 3, "clamped sum", border=(2, 2, 2, 2)),
    Block((16, 16), (11, 7), 3, "hardswish", border=(0, 1, 2, 1)),
    Block((20, 34), (8, 15), 3, "", border=(3, 0, 0, 2)),
)
