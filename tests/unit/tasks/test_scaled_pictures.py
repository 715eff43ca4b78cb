"""Tasks prepare pictures on their program's GPU, with the results that they have without."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import webpte
from support.harness import image_text_cases
from support.harness.task_cases import make_picture, models_folder
from support.seeing.scaling import drawn, steps_for
from webpte.engine.call.gpu_tensor import GpuTensor
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import ClosedError, DeviceLostError, OutOfMemoryError
from webpte.tasks.vision.scaling.preparer import LEAST_WORK, PicturePreparer, Prepared, batch_of
from webpte.tasks.vision.scaling.steps import PictureSteps

PICTURES = [make_picture(*size) for size in ((9, 31), (40, 17), (9, 31))]
WIDE, HIGH = (image_text_cases.made(one) for one in (image_text_cases.WIDE, image_text_cases.HIGH))


class Counted(PicturePreparer):
    """Prepares pictures on the GPU, and counts them."""

    def __init__(self, program: Any) -> None:
        super().__init__(program, on_gpu=True)
        self.calls = 0

    async def __call__(self, *given: Any) -> Sequence[Prepared]:
        self.calls += 1
        found = await super().__call__(*given)
        assert all(isinstance(one, GpuTensor) for one in found)
        return found


async def opened(name: str, model: str, device: Any, on_gpu: bool = True) -> Any:
    folder = models_folder() / model
    if name == "image-text-to-text":
        folder = image_text_cases.models_folder() / model
    task: Any = await webpte.tasks.open(name, folder, device=device)
    if on_gpu:
        made = Counted(task.program)
        if name == "image-text-to-text":
            task._prompts._preparer = made
        else:
            task.preparer = made
        task.counted = made
    return task


@pytest.mark.parametrize(
    ("name", "model"), [("image-classification", "shapes"), ("depth-estimation", "depths")]
)
def test_results_are_the_same(name: str, model: str) -> None:
    async def run() -> None:
        async with await opened(name, model, "numpy", on_gpu=False) as task:
            wanted = await task(PICTURES)
        device = SimulatedDevice()
        async with await opened(name, model, device) as task:
            found = await task(PICTURES)
            assert task.counted.calls == 3
        assert not device.buffers
        for one, other in zip(found, wanted, strict=True):
            _agree(one, other)

    asyncio.run(run())


def _agree(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            _agree(one[key], other[key])
    elif isinstance(one, list):
        for a, b in zip(one, other, strict=True):
            _agree(a, b)
    elif isinstance(one, str):
        assert one == other
    else:
        np.testing.assert_allclose(np.asarray(one, float), np.asarray(other, float), atol=1e-5)


def test_answers_about_pictures_are_the_same() -> None:
    async def run() -> None:
        asked: dict[str, Any] = {"max_new_tokens": 5, "return_full_text": False}
        async with await opened("image-text-to-text", "tiles", "numpy", on_gpu=False) as task:
            wanted = [await task(one, text="What is it?", **asked) for one in (WIDE, HIGH)]
        device = SimulatedDevice()
        async with await opened("image-text-to-text", "tiles", device) as task:
            shown = WIDE.copy()
            assert await task(shown, text="What is it?", **asked) == wanted[0]
            before = len(device.buffers)
            assert await task(shown, text="What is it?", **asked) == wanted[0]
            assert task.counted.calls == 1  # its rows are in the cache
            assert await task(HIGH, text="What is it?", **asked) == wanted[1]
            assert await task(shown, text="What is it?", **asked) == wanted[0]
            assert task.counted.calls == 3
            # No tile is kept: only a graph for another size of pictures.
            tiles = len(task._prompts._pictures.layout(*HIGH.shape[:2]).steps.parts)
            assert len(device.buffers) - before < 3 * tiles
        assert not device.buffers

    asyncio.run(run())


def test_a_chat_goes_on_after_a_lost_device() -> None:
    async def run() -> None:
        devices = [SimulatedDevice(), SimulatedDevice()]
        async with await opened("image-text-to-text", "patches", devices[0]) as task:
            chat = task.chat()
            chat._reader._preparer = counted = Counted(task.program)
            picture = WIDE.copy()
            first = await chat.send("Who?", 4, pictures=[picture])
            picture[:] = 0  # the chat has kept a copy
            assert np.array_equal(chat.messages[0]["pictures"][0], WIDE)
            devices[0].inject(DeviceLostError)
            with pytest.raises(DeviceLostError):
                await chat.send("And?", 4)
            chat.undo()
            await task.program.recover(devices[1])
            assert await chat.regenerate() == first
            assert counted.calls == 2

    asyncio.run(run())


def test_memory_that_is_short_leaves_it_to_numpy() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        async with await opened("image-classification", "shapes", device, on_gpu=False) as task:
            wanted = await task(PICTURES[0])
            task.preparer.on_gpu = True
            device._memory_limit = sum(device.buffers.values()) + 1000
            steps = task.preprocessor.steps(*PICTURES[0].shape[:2])
            with pytest.raises(OutOfMemoryError):
                await task.preparer._on_gpu().run(steps, PICTURES[0], "float32")
            _agree(await task(PICTURES[0]), wanted)

    asyncio.run(run())


def test_a_closed_program_prepares_nothing() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        task = await opened("image-classification", "shapes", device)
        await task(PICTURES[0])
        coming = asyncio.ensure_future(task(PICTURES[1]))
        await asyncio.sleep(0)
        task.close()
        with pytest.raises(ClosedError):
            await coming
        with pytest.raises(ClosedError):
            await task(PICTURES[0])
        assert not device.buffers

    asyncio.run(run())


def test_where_pictures_are_prepared() -> None:
    def enlarged(size: int) -> PictureSteps:
        return steps_for((600, 800), ((size, size),), 1)

    async def run() -> None:
        device = SimulatedDevice()
        async with await opened("image-classification", "shapes", device, on_gpu=False) as task:
            preparer = task.preparer
            assert enlarged(1000).work > LEAST_WORK
            for kind, software, wanted in (
                ("webgpu", False, True),
                ("webgpu", True, True),  # quicker than NumPy in a browser, too
                ("native", False, True),
                ("native", True, False),
            ):
                device.info = replace(device.info, kind=kind, software=software)
                assert preparer.uses_gpu(enlarged(1000)) is wanted
                assert not preparer.uses_gpu(steps_for((31, 53), ((41, 37),), 1))
            device.info = replace(device.info, kind="webgpu", limits={"maxBufferSize": 1 << 20})
            assert not preparer.uses_gpu(enlarged(1000))
        async with await opened("image-classification", "shapes", "numpy", on_gpu=False) as task:
            assert not task.preparer.uses_gpu(enlarged(1000))

    asyncio.run(run())


def test_pictures_of_a_batch_may_be_in_both_places() -> None:
    async def run() -> None:
        device = SimulatedDevice(features=("shader-f16",))
        async with await opened("image-classification", "shapes", device) as task:
            for dtype in ("float32", "float16"):  # 297 halves are no whole words
                steps, pixels = steps_for((31, 53), ((41, 37),), 2), drawn(31, 53)
                on_gpu = await task.counted(steps, pixels, dtype)
                on_host = await PicturePreparer(task.program, on_gpu=False)(steps, pixels, dtype)
                for batch in ([on_gpu[0]], [on_gpu[0], on_host[1]], [on_host[0], on_host[1]]):
                    made = await batch_of(batch, task.program)
                    array = await made.numpy() if isinstance(made, GpuTensor) else made
                    assert array.dtype == np.dtype(dtype)
                    wanted = [np.asarray(one) for one in on_host[: len(batch)]]
                    assert np.array_equal(array, np.stack(wanted))

    asyncio.run(run())
