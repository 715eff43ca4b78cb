"""Steps of pictures: their passes, the same in NumPy and as a graph, and their memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from support.seeing.scaling import TABLE, check_steps, drawn, every_steps, patch_steps, steps_for
from webpte.engine.gpu.device_info import BINDING_LIMIT, with_limits
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import ClosedError, InputError, OutOfMemoryError
from webpte.tasks.vision.scaling import gpu_scaler
from webpte.tasks.vision.scaling.gpu_scaler import GpuScaler, fits
from webpte.tasks.vision.scaling.resample import NEAREST, filter_weights, nearest
from webpte.tasks.vision.scaling.steps import PicturePart, PictureSteps, prepare_on_host

LANCZOS = 1


@pytest.mark.parametrize("resample", [NEAREST, LANCZOS, 3])
def test_a_graph_gives_the_same_bits(resample: int) -> None:
    device = SimulatedDevice()
    asyncio.run(check_steps(device, every_steps(range(resample, resample + 1))))
    assert not device.buffers


def test_dims_that_stay_need_no_pass() -> None:
    steps = steps_for((7, 9), ((7, 5), (7, 5), (3, 5)), LANCZOS)
    passes = list(steps.passes())
    assert [(one.stage, one.dim, one.size) for one in passes] == [(0, 1, (7, 5)), (2, 0, (3, 5))]
    taps = [one.weights.shape[1] for one in passes]
    assert steps.work == 35 * taps[0] + 15 * taps[1]


def test_the_nearest_pixel_is_a_filter_too() -> None:
    starts, weights = filter_weights(7, 19, NEAREST)
    assert np.array_equal(starts, nearest(7, 19))
    assert weights.tolist() == [[1 << 22]] * 19


def test_weights_of_a_pixel_have_a_sum_of_one() -> None:
    for resample in (1, 2, 3, 4, 5):
        for before, size in ((1, 9), (9, 1), (640, 224), (224, 641)):
            starts, weights = filter_weights(before, size, resample)
            assert abs(weights.sum(axis=1, dtype=np.int64) - (1 << 22)).max() <= weights.shape[1]
            assert (starts >= 0).all()
            assert (starts < before).all()


def test_floats_are_those_of_the_table() -> None:
    pixels = drawn(4, 6)
    parts = (PicturePart(0, 1, 2), PicturePart(0, -1, 4))
    steps = PictureSteps((4, 6), (), LANCZOS, parts, (2, 3), TABLE)
    inside, around = prepare_on_host(steps, pixels)
    for plane in range(3):
        assert np.array_equal(inside[plane], TABLE[plane][pixels[1:3, 2:5, plane]])
        assert (around[plane, 0] == TABLE[plane, 256]).all()
        assert (around[plane, :, 2] == TABLE[plane, 256]).all()
        assert np.array_equal(around[plane, 1, :2], TABLE[plane][pixels[0, 4:6, plane]])


def test_halves_are_rounded_once() -> None:
    async def run() -> None:
        for features in ((), ("shader-f16",)):
            scaler = GpuScaler(SimulatedDevice(features=features))
            steps, pixels = steps_for((31, 53), ((9, 11),), 2), drawn(31, 53)
            wanted = prepare_on_host(steps, pixels)
            for tensor, array in zip(
                await scaler.run(steps, pixels, "float16"), wanted, strict=True
            ):
                assert tensor.dtype == np.float16
                assert np.array_equal(await tensor.numpy(), array.astype(np.float16))

    asyncio.run(run())


def test_equal_pictures_have_equal_digests() -> None:
    steps, pixels = steps_for((31, 53), ((9, 11),), 2), drawn(31, 53)
    other = replace(steps, table=TABLE + 1)
    changed = pixels.copy()
    changed[3, 4, 1] ^= 1
    digests = {
        steps.digest(pixels),
        steps.digest(np.asfortranarray(pixels)),
        steps.digest(changed),
        other.digest(pixels),
        steps_for((31, 53), ((9, 11),), 3).digest(pixels),
    }
    assert len(digests) == 4


def test_graphs_of_the_last_sizes_are_kept() -> None:
    device = SimulatedDevice()

    async def run() -> None:
        scaler = GpuScaler(device)

        async def prepared(height: int) -> list[str]:
            del device.log[:]
            steps = steps_for((height, 5), ((9, 11),), 2)
            for tensor in await scaler.run(steps, drawn(height, 5), "float32"):
                tensor.destroy()
            return [name for name, _ in device.log if name in ("create_plan", "run")]

        assert await prepared(7) == ["create_plan", "run"]
        counted = len(device.buffers)
        assert await prepared(7) == ["run"]
        await prepared(8)
        assert await prepared(7) == ["run"]
        assert len(device.buffers) == 2 * counted
        await prepared(10)  # takes the place of 8
        assert len(device.buffers) == 2 * counted
        assert await prepared(7) == ["run"]
        assert await prepared(8) == ["create_plan", "run"]
        scaler.close()
        assert not device.buffers
        with pytest.raises(ClosedError, match="closed while a picture"):
            await prepared(7)
        assert not device.buffers

    asyncio.run(run())


def test_of_large_graphs_one_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_scaler, "_KEPT_BYTES", 1000)
    device = SimulatedDevice()

    async def run() -> None:
        scaler = GpuScaler(device)
        for height in (7, 8):
            steps = steps_for((height, 5), ((9, 11),), 2)
            for tensor in await scaler.run(steps, drawn(height, 5), "float32"):
                tensor.destroy()
            assert scaler.nbytes == sum(device.buffers.values()) > 1000
            assert len(scaler._delegates) == 1
        scaler.close()

    asyncio.run(run())


def test_several_pictures_at_once() -> None:
    device = SimulatedDevice()

    async def run() -> None:
        scaler = GpuScaler(device)
        sizes = [(7, 5), (7, 5), (8, 5), (9, 5), (7, 5), (10, 3)]
        given = [(steps_for(size, ((9, 11),), 2), drawn(*size)) for size in sizes]
        calls = [scaler.run(steps, pixels, "float32") for steps, pixels in given]
        for (steps, pixels), made in zip(given, await asyncio.gather(*calls), strict=True):
            for tensor, array in zip(made, prepare_on_host(steps, pixels), strict=True):
                assert np.array_equal(await tensor.numpy(), array)
        scaler.close()

    asyncio.run(run())


def test_what_fails_leaves_nothing() -> None:
    steps, pixels = steps_for((31, 53), ((9, 11),), 2), drawn(31, 53)

    async def run() -> None:
        device = SimulatedDevice(memory_limit=5000)
        with pytest.raises(OutOfMemoryError):
            await GpuScaler(device).run(steps, pixels, "float32")
        assert not device.buffers
        small = with_limits(device.info, {BINDING_LIMIT: 31 * 53 * 4 - 1})
        assert fits(steps, device.info)
        assert not fits(steps, small)

    asyncio.run(run())


def test_other_pictures_are_refused() -> None:
    steps = steps_for((7, 5), ((9, 11),), 2)
    with pytest.raises(InputError, match=r"\[7, 5, 3\] was to be prepared, not \[5, 7, 3\]"):
        prepare_on_host(steps, drawn(5, 7))
    with pytest.raises(InputError, match="float64"):
        prepare_on_host(steps, drawn(7, 5).astype(float))
    with pytest.raises(InputError, match="0 by 3"):
        steps_for((7, 5), ((0, 3),), 2)
    with pytest.raises(InputError, match="no filter 9"):
        steps_for((7, 5), ((9, 3),), 9)


def test_patches_are_squares_of_the_planes() -> None:
    steps, pixels = patch_steps(), drawn(31, 53)
    (found,) = prepare_on_host(steps, pixels)
    planes = replace(steps, patches=None)
    (whole,) = prepare_on_host(planes, pixels)
    assert found.shape == steps.shape == (6, 4, 27)
    square, patch = 4, 1  # the second of its row, and in it the upper right patch
    row, column = 6 * (square // 3), 6 * (square % 3) + 3 * patch
    wanted = whole[:, row : row + 3, column : column + 3]
    assert np.array_equal(found[square, patch].reshape(3, 3, 3), wanted)
    assert steps.digest(pixels) != planes.digest(pixels)
