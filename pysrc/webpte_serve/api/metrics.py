"""Counts of requests and tokens, and times, for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from webpte_serve.openai import EmbeddingModel, Model


class Metrics:
    """The numbers that `/metrics` reports."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        given: dict[str, Any] = {"registry": self._registry}
        self._requests = Counter(
            "webpte_requests", "Requests that were answered", ["path", "status"], **given
        )
        self._tokens = Counter("webpte_tokens", "Tokens of requests", ["kind"], **given)
        self._under_way = Gauge(
            "webpte_under_way",
            "Requests that share the steps of a model now, and those that wait",
            ["model", "state"],
            **given,
        )
        self._seconds = Histogram(
            "webpte_request_seconds", "Time until a request was answered", ["path"], **given
        )
        self._first = Histogram(
            "webpte_first_chunk_seconds",
            "Time until the first chunk of a stream",
            ["path"],
            **given,
        )

    def text(self, models: Sequence[Model | EmbeddingModel]) -> bytes:
        for model in models:
            self._under_way.labels(model.name, "waiting").set(model.waiting)
            if isinstance(model, Model):
                self._under_way.labels(model.name, "running").set(model.running)
        return bytes(generate_latest(self._registry))

    def note_first(self, path: str, started: float) -> None:
        self._first.labels(path).observe(time.perf_counter() - started)

    def note(
        self, path: str, status: int, started: float, usage: dict[str, int] | None = None
    ) -> None:
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(time.perf_counter() - started)
        for kind in ("prompt", "completion"):
            self._tokens.labels(kind).inc((usage or {}).get(f"{kind}_tokens", 0))
