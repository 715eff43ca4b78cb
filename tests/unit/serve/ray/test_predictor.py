"""The class for Ray Data, without Ray: columns, order, lost devices, threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from support.devices.losable import Losable, share_losable
from support.devices.recorded import add_graph
from support.write.pte_writer import write_pte
from support.write.row_programs import CLASSES, WIDTH, classified, classifier
from webpte.engine.gpu.device import PlanRun
from webpte.errors import ClosedError, DeviceLostError, InputError, NoWebGPUError
from webpte_serve.ray import Predictor

ROWS = 23


def rows(count: int = ROWS) -> np.ndarray:
    return np.random.default_rng(3).standard_normal((count, WIDTH)).astype(np.float32)


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> list[Losable]:
    """The shared devices that were made, in order: a new one once the last is lost."""
    return share_losable(monkeypatch)


@pytest.fixture
def adder() -> Iterator[Predictor]:
    """A predictor of input0 + input1."""
    with closing(Predictor(write_pte(add_graph((4, 3))), device="numpy")) as made:
        yield made


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("size", [1, 4, 50])
def test_results_are_those_of_each_row(size: int, dynamic: bool) -> None:
    made = Predictor(classifier(size, dynamic=dynamic), device="numpy", outputs=["scores", "best"])
    with closing(made) as predictor:
        x = rows()
        found = predictor({"id": np.arange(ROWS), "input0": x})
        assert list(found) == ["id", "scores", "best"]
        scores, best = classified(x)
        np.testing.assert_allclose(found["scores"], scores, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found["best"], best, rtol=1e-5, atol=1e-5)
        assert np.array_equal(found["id"], np.arange(ROWS))
        alone = [predictor({"input0": x[at : at + 1]})["scores"][0] for at in range(ROWS)]
        np.testing.assert_allclose(found["scores"], alone, rtol=1e-6, atol=1e-6)
        assert predictor({"input0": x[:0]})["scores"].shape == (0, CLASSES)


# Columns


def test_columns_by_name_by_order_and_alone(adder: Predictor) -> None:
    data, one = write_pte(add_graph((4, 3))), np.ones((2, 3), np.float32)
    assert (adder({"input1": one, "input0": one * 2})["output0"] == 3).all()
    batch = {"a": one, "b": one * 4, "label": np.array(["x", "y"])}
    for inputs in (["a", "b"], {"input1": "b", "input0": "a"}):
        for keep in (None, ["a"]):
            given: dict[str, Any] = {"inputs": inputs, "keep": keep, "outputs": "sum"}
            with closing(Predictor(data, device="numpy", **given)) as made:
                found = made(batch)
                assert (found["sum"] == 5).all()
                assert list(found) == [*(keep or ["label"]), "sum"]
    fixed = {"input1": np.full((4, 3), 7, np.float32)}
    with closing(Predictor(data, device="numpy", fixed=fixed)) as made:
        assert (made({"anything": one})["output0"] == 8).all()


def test_columns_that_do_not_fit_are_told(adder: Predictor) -> None:
    one = np.ones((2, 3), np.float32)
    with pytest.raises(InputError, match=r"has \['a', 'b'\], and the rows go into \['input0'"):
        adder({"a": one, "b": one})
    data = write_pte(add_graph((4, 3)))
    for given, told in (
        ({"inputs": ["a"]}, "give a column each"),
        ({"inputs": {"input0": "a", "x": "b"}}, "`inputs` names"),
        ({"outputs": ["a", "b"]}, "give a name each"),
        ({"retries": -1}, "retries is -1"),
        ({"method": "backward"}, "has no method 'backward'; it has: forward"),
    ):
        options: dict[str, Any] = dict(given)
        with pytest.raises(InputError, match=told):
            Predictor(data, device="numpy", **options)
    with closing(Predictor(data, device="numpy", inputs=["a", "b"], outputs=["c"])) as made:
        with pytest.raises(InputError, match=r"no column \['b'\]"):
            made({"a": one})
        with pytest.raises(InputError, match=r"\['c'\] would be a result and a kept column"):
            made({"a": one, "b": one, "c": one})
        with pytest.raises(InputError, match=r"input0.*float32 is needed, not int64"):
            made({"a": one.astype(np.int64), "b": one})
        assert (made({"a": one, "b": one})["c"] == 2).all()  # errors change nothing


# Lost devices


class Dying(Losable):
    """A device that is lost in the middle of a run, once so many have begun."""

    lives = 4

    def run(self, run: PlanRun) -> Awaitable[bytes]:
        self.lives -= 1
        if self.lives < 0:
            self.lost = True
        return super().run(run)


def test_a_lost_device_is_replaced_and_each_row_computed(
    devices: list[Losable], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("support.devices.losable.Losable", Dying)
    x = rows()
    with closing(Predictor(classifier(4), device="webgpu")) as predictor:
        found = predictor({"input0": x})  # six calls
        assert len(devices) == 2
        np.testing.assert_allclose(found["output0"], classified(x)[0], rtol=1e-5, atol=1e-5)
        found = predictor({"input0": x[:9]})
        assert len(devices) == 3
        np.testing.assert_allclose(found["output0"], classified(x[:9])[0], rtol=1e-5, atol=1e-5)


def test_a_device_that_does_not_come_back_is_an_error(
    devices: list[Losable], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(name: str) -> Losable:
        raise NoWebGPUError("no adapter")

    with closing(Predictor(classifier(4), device="webgpu", retries=1)) as predictor:
        predictor({"input0": rows()})
        devices[0].lost = True
        with monkeypatch.context() as gone:
            gone.setattr("webpte.program.shared_device", none)
            with pytest.raises(DeviceLostError, match=r"1 further attempts .*: no adapter"):
                predictor({"input0": rows()})
        assert predictor({"input0": rows()})["output0"].shape == (ROWS, CLASSES)
        assert len(devices) == 2


# Threads


def test_calls_come_from_any_thread_and_any_loop() -> None:
    x = rows()
    with closing(Predictor(classifier(4), device="numpy")) as predictor:

        def scores(start: int) -> np.ndarray:
            return predictor({"input0": x[start:]})["output0"]

        async def inside() -> np.ndarray:
            return scores(0)

        whole = asyncio.run(inside())
        with ThreadPoolExecutor(4) as threads:
            for start, found in enumerate(threads.map(scores, range(8))):
                assert np.array_equal(found, whole[start:])


def test_a_closed_predictor_says_so() -> None:
    predictor = Predictor(classifier(4), device="numpy")
    predictor.close()
    predictor.close()
    with pytest.raises(ClosedError, match="was closed"):
        predictor({"input0": rows()})
