"""Pictures are scaled by WebGPU in the page: the bits equal NumPy's in CPython."""

from __future__ import annotations

import hashlib
import json

import pytest

from support.page.page import python
from support.page.task_page import packed
from support.seeing.scaling import TABLE, drawn, every_steps
from webpte.tasks.vision.scaling.steps import prepare_on_host
from webpte_host.harness.browser import Harness

CODE = """
import hashlib
from webpte.engine.gpu.devices import shared_device
from webpte.tasks.vision.scaling.gpu_scaler import GpuScaler
from webpte.tasks.vision.scaling.steps import PicturePart, PictureSteps

scaler, hashes = GpuScaler(await shared_device("webgpu")), []
for (given, resizes, resample, parts, part, patches), pixels in asked:
    steps = PictureSteps(
        tuple(given), tuple(map(tuple, resizes)), resample,
        tuple(PicturePart(*one) for one in parts), tuple(part), unpack(table),
        patches and tuple(patches),
    )
    made = await scaler.run(steps, unpack(pixels), "float32")
    data = b"".join([(await tensor.numpy()).tobytes() for tensor in made])
    hashes.append(hashlib.sha256(data).hexdigest())
scaler.close()
return hashes
"""


@pytest.mark.thorough
def test_pictures_are_scaled_to_the_same_bits(harness: Harness) -> None:
    some = list(every_steps())[::9]
    assert {one.resample for one in some} == set(range(6))
    asked, wanted = [], []
    for steps in some:
        pixels = drawn(*steps.given)
        parts = [(one.stage, one.top, one.left) for one in steps.parts]
        fields = steps.given, steps.resizes, steps.resample, parts, steps.part, steps.patches
        asked.append((fields, packed(pixels)))
        data = b"".join(part.tobytes() for part in prepare_on_host(steps, pixels))
        wanted.append(hashlib.sha256(data).hexdigest())
    asked = json.loads(json.dumps(asked))
    assert python(harness, CODE, asked=asked, table=packed(TABLE)) == wanted
