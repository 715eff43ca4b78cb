"""`webpte_serve.ray.Predictor` on Ray Data: two workers on a GPU, one of them killed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import ray

from support.devices.native import need_native
from support.harness.mortal_predictor import MortalPredictor
from support.write.row_programs import EXPORTED, RESULTS, ROWS, classifier, with_features
from webpte_serve.ray import Predictor

BLOCKS, BATCH = 20, 200
pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def rows() -> ray.data.Dataset:
    """Rows with an id and features, in blocks that keep their order."""
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    ray.data.DataContext.get_current().enable_progress_bars = False
    made = ray.data.range(ROWS, override_num_blocks=BLOCKS)
    return made.map_batches(with_features, batch_size=None)


def test_every_row_is_computed_once_though_a_worker_is_killed(
    rows: ray.data.Dataset, tmp_path: Path
) -> None:
    need_native()
    killed = tmp_path / "killed"
    found = rows.map_batches(
        MortalPredictor,
        fn_constructor_args=[str(EXPORTED)],
        fn_constructor_kwargs={
            "row": ROWS // 2,
            "killed": str(killed),
            "inputs": ["x"],
            "outputs": ["score"],
        },
        batch_size=BATCH,
        compute=ray.data.ActorPoolStrategy(size=2),
        num_cpus=0.5,
    ).take_all()
    assert killed.exists()
    assert [row["id"] for row in found] == list(range(ROWS))
    results = np.load(RESULTS)
    np.testing.assert_allclose([row["score"] for row in found], results, rtol=1e-5, atol=1e-5)
    assert len({row["process"] for row in found}) >= 2


def test_an_error_of_a_worker_reaches_the_driver(rows: ray.data.Dataset) -> None:
    wrong = rows.limit(10).map_batches(
        Predictor,
        fn_constructor_args=[classifier(4)],
        fn_constructor_kwargs={"device": "numpy", "inputs": ["y"]},
        compute=ray.data.ActorPoolStrategy(size=1),
        num_cpus=0.5,
    )
    told = r"webpte\.errors\.InputError: the batch has no column \['y'\]"
    with pytest.raises(ray.exceptions.RayTaskError, match=told):
        wrong.take_all()
