"""The recording device keeps the commands of a program, and computes nothing."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import webpte
from webpte.engine.gpu.device import PipelineSpec
from webpte.engine.gpu.device_info import BINDING_LIMIT
from webpte.engine.gpu.recording.device import EVERY_GPU, RecordingDevice
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import DeviceError, OutOfMemoryError, UnsupportedError
from webpte_host.base.layout import ROOT

DIGITS = ROOT / "web" / "samples" / "digits.pte"


async def opened(device: webpte.Device) -> webpte.Program:
    options = webpte.Options(tuned=False)
    return await webpte.load(DIGITS, device=device, options=options)


def test_it_gets_the_commands_of_other_devices() -> None:
    recording, simulated = RecordingDevice(), SimulatedDevice()
    program = asyncio.run(opened(recording))
    other = asyncio.run(opened(simulated))
    mine, theirs = list(recording.plans.values()), list(simulated.plans.values())
    assert [len(plan.dispatches) for plan in mine] == [len(plan.dispatches) for plan in theirs]
    assert len(mine[0].dispatches) > 3
    assert sorted(recording.sizes.values()) == sorted(simulated.buffers.values())
    assert {spec.label for spec in recording.specs.values()} == {
        spec.label for spec in simulated.pipelines
    }
    (moved,) = (detail for name, detail in simulated.log if name == "transfer")
    assert [t.region for t in recording.transfers] == [t.region for t in moved]  # type: ignore[attr-defined]
    for one in (program, other):
        one.close()
    assert recording.sizes == {}
    assert recording.plans == {}
    assert recording.transfers == []


def test_contents_are_those_that_were_written() -> None:
    async def write() -> RecordingDevice:
        device = RecordingDevice()
        (buffer,) = await device.create_buffers([16], use="uniform")
        device.write(buffer, 4, np.array([7, 8], np.uint32))
        device.write(buffer, 8, np.array([9], np.uint32))
        with pytest.raises(DeviceError, match="bytes 12 to 20 of buffer"):
            device.write(buffer, 12, np.zeros(2, np.uint32))
        return device

    (contents,) = asyncio.run(write()).contents.values()
    assert contents.view(np.uint32).tolist() == [0, 7, 9, 0]


def test_equal_kernels_have_one_number() -> None:
    device = RecordingDevice()
    specs = [PipelineSpec(label, "fn main() {}", (), ()) for label in "aba"]
    first, second, third = asyncio.run(device.create_pipelines(specs))
    assert first == third != second
    assert set(device.specs) == {first, second}


def test_buffers_over_the_limits_are_refused() -> None:
    size = EVERY_GPU.limits[BINDING_LIMIT] + 16
    with pytest.raises(OutOfMemoryError, match="over this GPU's limit"):
        asyncio.run(RecordingDevice().create_buffers([size]))


def test_nothing_is_computed() -> None:
    async def run() -> None:
        async with await opened(RecordingDevice()) as program:
            await program.forward(np.zeros((1, 1, 28, 28), np.float32))

    with pytest.raises(UnsupportedError, match="a run is needed, and a recording device computes"):
        asyncio.run(run())
