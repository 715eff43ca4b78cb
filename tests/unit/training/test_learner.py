"""Training of a program: its steps equal PyTorch's, and it classifies new drawings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import webpte
from page.views.teach.drawings import centred, varied
from support.harness import extent
from support.page.fake_page import SAMPLES
from support.page.teaching import PYTORCH_LOSSES, SHAPES, batch, examples, first_weights
from webpte.engine.call.info import ScalarInfo
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import InputError
from webpte.training import Learner, can_be_taught

TEACH = SAMPLES / "teach.pte"


def taught(script: Callable[[Learner], Awaitable[Any]], device: Any = "numpy") -> Any:
    async def all_of_it() -> Any:
        async with await webpte.load(TEACH, device=device) as program:
            return await script(Learner(program))

    return asyncio.run(all_of_it())


@pytest.mark.parametrize("device", extent.some(["recording"], "numpy"))
def test_ten_steps_are_those_of_pytorch(device: str) -> None:
    """Weights stay on the recording device, in separate tensors, as on a GPU."""

    async def steps(learner: Learner) -> list[float]:
        pictures, labels = batch(learner.form.batch)
        start = first_weights(learner.form.weights)
        learner.load(dict(zip(await learner.weights(), start, strict=True)))
        found = []
        for _ in PYTORCH_LOSSES:
            loss = await learner.step(pictures, labels)
            found.append(float(loss if isinstance(loss, np.ndarray) else await loss.numpy()))
        return found

    found = taught(steps, SimulatedDevice() if device == "recording" else device)
    np.testing.assert_allclose(found, PYTORCH_LOSSES, rtol=2e-4, atol=2e-5)


def test_a_few_drawings_are_enough_for_new_ones() -> None:
    pictures, labels = examples(3, seed=1)
    new, wanted = examples(4, seed=2)

    async def script(learner: Learner) -> tuple[list[float], list[int]]:
        told = np.stack([centred(one[0])[None] for one in pictures])
        losses = [loss async for loss in learner.learn(told, labels.tolist(), 32, varied)]
        assert learner.steps == len(losses) == 32
        guesses = [int((await learner.predict(centred(one[0])[None])).argmax()) for one in new]
        return losses, guesses

    losses, guesses = taught(script)
    assert losses[0] > 1 > 4 * np.mean(losses[-8:])
    assert np.mean(np.array(guesses) == wanted) >= 0.85  # of five shapes: a fifth by chance


def test_what_was_learned_goes_on_elsewhere() -> None:
    pictures, labels = examples(2, seed=1)

    async def script(learner: Learner) -> None:
        nothing = await learner.predict(np.zeros(learner.form.shape, np.float32))
        assert np.abs(nothing).max() < 1e-5  # of an empty pad it has no opinion
        async for _ in learner.learn(pictures, labels.tolist(), 4):
            pass
        kept, before = await learner.weights(), await learner.predict(pictures[0])
        learner.reset(seed=5)
        assert learner.steps == 0
        assert np.abs(await learner.predict(pictures[0]) - before).max() > 0.1
        learner.load(kept)
        np.testing.assert_array_equal(await learner.predict(pictures[0]), before)

    taught(script)


def test_what_does_not_fit_is_told() -> None:
    async def script(learner: Learner) -> None:
        pictures, labels = examples(1, seed=1)
        before = await learner.weights()
        drawn, _ = batch(learner.form.batch)
        for wrong in (9, -1, 1.5, 2**40, "a"):
            with pytest.raises(InputError, match="labels must be integers from 0 to 4"):
                await anext(learner.learn(pictures, [wrong] * len(labels), 1))  # type: ignore[list-item]
            with pytest.raises(InputError, match="labels must be integers from 0 to 4"):
                await learner.step(drawn, np.array([wrong] * len(drawn)))
        learner.rate = float("nan")
        with pytest.raises(InputError, match="the learning rate is nan"):
            await anext(learner.learn(pictures, labels.tolist(), 1))
        for name, array in (await learner.weights()).items():
            np.testing.assert_array_equal(array, before[name])
        with pytest.raises(InputError, match=r"examples are \[1, 28, 28\] each"):
            await anext(learner.learn(pictures[:, 0], labels.tolist(), 1))
        with pytest.raises(InputError, match="weights of this program are weight1, mean1"):
            learner.load({"weight1": np.zeros(3)})

    taught(script)
    methods = asyncio.run(webpte.inspect(SAMPLES / "digits.pte"))
    assert not can_be_taught(methods)
    with pytest.raises(InputError, match="methods 'learn' and 'predict'; this one has: forward"):
        webpte.training.form_of(methods)


def test_programs_that_only_look_alike_cannot_be_taught() -> None:
    taught = asyncio.run(webpte.inspect(TEACH))
    learn, predict = taught["learn"], taught["predict"]
    number = ScalarInfo("x", "int", 1)
    for name, method in {
        "learn": replace(learn, inputs=(number, *learn.inputs[1:])),
        "predict": replace(predict, outputs=()),
    }.items():
        assert not can_be_taught({**taught, name: method})
    scalar = replace(predict, outputs=(number,))
    assert not can_be_taught({**taught, "predict": scalar})
    assert can_be_taught(taught)


def test_whoever_changes_an_array_of_weights_changes_their_own() -> None:
    async def script(learner: Learner) -> None:
        picture = np.ones(learner.form.shape, np.float32)
        before, weights = await learner.predict(picture), await learner.weights()
        for array in weights.values():
            np.add(array, 1, out=array)
        np.testing.assert_array_equal(await learner.predict(picture), before)
        learner.load(weights)
        loaded = await learner.predict(picture)
        for array in weights.values():
            np.add(array, 1, out=array)
        np.testing.assert_array_equal(await learner.predict(picture), loaded)

    taught(script)


def test_drawings_are_moved_to_the_middle_and_stay_whole() -> None:
    pictures, _ = examples(1, seed=3)
    for (picture,), name in zip(pictures, SHAPES, strict=True):
        moved = centred(picture)
        rows, columns = np.mgrid[:28, :28]
        for places in (rows, columns):
            assert abs((moved * places).sum() / moved.sum() - 13.5) < 0.6, name
        assert moved.sum() == pytest.approx(picture.sum(), rel=0.02)
        np.testing.assert_array_equal(centred(moved), moved)
    changed = varied(pictures, np.random.default_rng(0))
    assert changed.shape == pictures.shape
    assert changed.min() >= 0
    assert changed.max() <= 1
    assert changed.sum() == pytest.approx(pictures.sum(), rel=0.2)
    assert np.abs(changed - pictures).mean() > 0.01
