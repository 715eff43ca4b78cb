"""Opens the small encoder of tests/data/tasks for retrieval, and compares vectors by NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import webpte
from support.harness.task_cases import models_folder
from webpte.tasks.retrieval.retrieval_task import Retrieval
from webpte.tasks.retrieval.vectors import Vectors

Array = np.ndarray


async def open_retrieval(device: Any = "numpy") -> Retrieval:
    """Open the encoder; it has random weights, so that equal texts are near, and no others."""
    task = await webpte.tasks.open("retrieval", models_folder() / "vectors", device=device)
    assert isinstance(task, Retrieval)
    return task


def unit_rows(count: int, width: int, seed: int = 0) -> Array:
    """Return random vectors of length 1, some of them equal."""
    rows = np.random.RandomState(seed).randn(count, width).astype(np.float32)
    rows[3::5] = rows[0]
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def nearest(rows: Array, query: Array, count: int) -> tuple[Array, Array]:
    """Return the expected result of a search: a stable sort of all products, in float64."""
    scores = (rows.astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
    order = np.argsort(-scores, kind="stable")[:count]
    return scores[order], order


async def check_search(vectors: Vectors, rows: Array, counts: Sequence[int]) -> None:
    """Compare searches with NumPy; rows may differ only where scores are about equal."""
    assert vectors.count == len(rows)
    for query in (rows[0], rows[-1], -rows[len(rows) // 2]):
        for count in counts:
            scores, found = await vectors.search(query, min(count, len(rows)))
            wanted, places = nearest(rows, query, min(count, len(rows)))
            np.testing.assert_allclose(scores, wanted, atol=1e-5)
            assert len(set(found.tolist())) == len(found)
            np.testing.assert_allclose(rows[found] @ query, wanted, atol=1e-5)
            equal = np.flatnonzero(np.abs(wanted - wanted[0]) < 1e-7)
            assert found[equal].tolist() == sorted(places[equal].tolist())


async def check_vectors(vectors: Vectors, width: int, sizes: Sequence[int]) -> None:
    """Append, discard and keep rows, and compare every state with NumPy."""
    rows = unit_rows(0 + sizes[0], width)
    await vectors.append(rows)
    vectors.commit()
    await check_search(vectors, rows, (1, 5, 70))
    for seed, size in enumerate(sizes[1:], 1):
        more = unit_rows(size, width, seed)
        await vectors.append(more)
        await check_search(vectors, rows, (3,))  # not committed
        if seed % 3 == 2:
            vectors.discard()
        else:
            vectors.commit()
            rows = np.concatenate([rows, more])
        await check_search(vectors, rows, (1, 10, 70))
    middle = len(rows) // 2
    spans = [(0, 1), (2, middle), (middle + 3, len(rows))]
    await vectors.keep(spans)
    rows = np.concatenate([rows[first:end] for first, end in spans])
    await check_search(vectors, rows, (1, 64))
    assert np.array_equal(np.concatenate([part async for part in vectors.parts()]), rows)
    await vectors.keep([])
    assert vectors.count == 0
