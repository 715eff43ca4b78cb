"""A call of retrieval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from support.harness.task_cases import CASES, EXPECTED, LONG, SHORT
from support.tasks.calls import TaskCall, read_json


def calls() -> Iterator[TaskCall]:
    """Yield a query whose vector, and the documents' vectors, transformers gave."""
    at = max(at for at, case in enumerate(CASES) if case[1] == "feature-extraction")
    assert CASES[at][2] == [[LONG, "ok", SHORT]]
    query, *vectors = np.array(read_json(EXPECTED)[at])
    found: list[dict[str, Any]] = [
        {"text": text, "document": f"{text[:2]}.txt", "score": float(query @ vector)}
        for text, vector in zip(("ok", SHORT), vectors, strict=True)
    ]
    documents = [{"name": one["document"], "text": one["text"]} for one in found]
    wanted = sorted(found, key=lambda one: -one["score"])
    yield TaskCall("retrieval", "vectors", [LONG], {}, wanted, added=documents)
