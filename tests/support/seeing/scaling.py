"""Steps of pictures of many sizes, with every filter, and a check of them on a device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from webpte.engine.gpu.device import Device
from webpte.tasks.vision.scaling.gpu_scaler import GpuScaler
from webpte.tasks.vision.scaling.steps import PicturePart, PictureSteps, Size, prepare_on_host

FILTERS = range(6)
GIVEN: tuple[Size, ...] = ((1, 1), (31, 53), (5, 97), (67, 1))
RESIZES: tuple[Size, ...] = ((1, 1), (41, 37), (17, 59), (83, 7))
# Inside and around each stage; no stage has the size of a part.
PARTS = (PicturePart(0, -1, 2), PicturePart(1), PicturePart(2, 3, -4), PicturePart(2, 40, 0))
TABLE = np.random.default_rng(5).normal(size=(3, 257)).astype(np.float32)


def drawn(height: int, width: int) -> np.ndarray:
    random = np.random.default_rng(height * 1000 + width)
    pixels = random.integers(0, 256, (height, width, 3), np.uint8)
    pixels[:: 2 + height // 4] = 255  # edges, beyond which some filters reach
    pixels[1 :: 2 + height // 4] = 0
    return pixels


def steps_for(given: Size, resizes: tuple[Size, ...], resample: int) -> PictureSteps:
    parts = tuple(part for part in PARTS if part.stage <= len(resizes))
    return PictureSteps(given, resizes, resample, parts, (9, 11), TABLE)


def every_steps(filters: Iterator[int] | range = FILTERS) -> Iterator[PictureSteps]:
    """Yield steps that make pictures larger and smaller, twice, in each dim or in one."""
    yield patch_steps()
    for resample in filters:
        for given in GIVEN:
            for size in RESIZES:
                yield steps_for(given, (size, (13, size[1])), resample)


def patch_steps() -> PictureSteps:
    """Return steps to two by three squares of four patches with three pixels a side."""
    part, patches = (12, 18), (2, 3)
    return PictureSteps((31, 53), (part,), 3, (PicturePart(1),), part, TABLE, patches)


async def check_steps(device: Device, steps: Iterator[PictureSteps]) -> None:
    """Compare parts of pictures on a device with NumPy's, bit by bit."""
    scaler = GpuScaler(device)
    for one in steps:
        pixels = drawn(*one.given)
        wanted = prepare_on_host(one, pixels)
        made = await scaler.run(one, pixels, "float32")
        for tensor, array in zip(made, wanted, strict=True):
            np.testing.assert_array_equal(await tensor.numpy(), array, err_msg=str(one)[:200])
    scaler.close()
