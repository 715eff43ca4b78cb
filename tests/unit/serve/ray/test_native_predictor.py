"""Batches of rows on this machine's GPU, which goes away in between."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np

import webpte
from support.devices.native import need_native
from support.graphs.graphs import wait
from support.write.row_programs import (
    EXPORTED,
    RESULTS,
    WIDTH,
    classified,
    classifier,
    with_features,
)
from webpte_serve.ray import Predictor


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal((count, WIDTH)).astype(np.float32)


def test_a_gpu_that_was_lost_is_opened_again() -> None:
    need_native()
    x = rows(37)
    with closing(Predictor(classifier(8, dynamic=True), outputs=["scores", "best"])) as predictor:
        for _ in range(2):
            found = predictor({"input0": x})
            scores, best = classified(x)
            np.testing.assert_allclose(found["scores"], scores, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(found["best"], best, rtol=1e-5, atol=1e-5)
            wait(webpte.shared_device("native")).destroy()  # type: ignore[attr-defined]


def test_predictors_of_several_threads_share_a_device() -> None:
    need_native()

    def scores(size: int) -> np.ndarray:
        with closing(Predictor(classifier(size), device="native")) as predictor:
            return predictor({"input0": rows(19)})["output0"]

    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(scores, (1, 2, 7, 32)):
            np.testing.assert_allclose(found, classified(rows(19))[0], rtol=1e-5, atol=1e-5)


def test_results_of_an_export_are_those_of_pytorch() -> None:
    need_native()
    ids = np.arange(1000)
    with closing(Predictor(EXPORTED, inputs="x", outputs="score")) as predictor:
        found = predictor(with_features({"id": ids}))
        np.testing.assert_allclose(found["score"], np.load(RESULTS)[ids], rtol=1e-5, atol=1e-5)
        assert np.array_equal(found["id"], ids)
