"""Programs that compute each row of a batch by itself, and what NumPy or PyTorch computes."""

from __future__ import annotations

import numpy as np

from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.base.layout import ROOT

# A program with a dynamic batch, and PyTorch's results (ROWS, 1) for `features`: make_rows.py
EXPORTED, RESULTS = ROOT / "tests/data/rows/model.pte", ROOT / "tests/data/rows/results.npy"
ROWS = 10_000

WIDTH, HIDDEN, CLASSES = 5, 7, 3
_RANDOM = np.random.default_rng(7)
_FIRST = _RANDOM.standard_normal((HIDDEN, WIDTH)).astype(np.float32)
_SECOND = _RANDOM.standard_normal((CLASSES, HIDDEN)).astype(np.float32)


def features(ids: np.ndarray) -> np.ndarray:
    """Return inputs (rows, WIDTH) by the ids of rows: each other than its neighbours'."""
    return np.sin(ids[:, None] * np.arange(1, WIDTH + 1) * 0.37).astype(np.float32)


def with_features(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Add features to a batch of ids."""
    return {"id": batch["id"], "x": features(batch["id"])}


def classifier(rows: int, *, dynamic: bool = False) -> bytes:
    """Write a program of two layers: x (rows, WIDTH) -> scores (rows, CLASSES), best (rows,)."""
    g = GraphWriter()
    x = g.tensor((rows, WIDTH))
    hidden = _linear(g, x, _FIRST, rows)
    active = g.op("aten.relu.default", hidden, g.tensor((rows, HIDDEN)))
    scores = _linear(g, active, _SECOND, rows)
    best = g.op("aten.amax.default", scores, g.int_list([1]), g.bool_(False), g.tensor((rows,)))
    g.inputs(x)
    g.outputs(scores, best)
    for value in (x, scores, best):
        g.host(value, dynamic=dynamic)
    return write_pte(g)


def _linear(g: GraphWriter, x: int, weight: np.ndarray, rows: int) -> int:
    held = g.prepack(g.tensor(weight.shape, constant=weight))
    return g.op("aten.linear.default", x, held, g.null(), g.tensor((rows, len(weight))))


def classified(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and the best of them, in double precision."""
    scores = np.maximum(x.astype(np.float64) @ _FIRST.T.astype(np.float64), 0) @ _SECOND.T
    return scores, scores.max(axis=1)
