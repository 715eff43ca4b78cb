"""The native device for tests: there, or clearly said why not; as GPUs are, whatever it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import webpte
from webpte.errors import NoWebGPUError
from webpte.gpu.native.dawn import load_dawn
from webpte.gpu.native.device import NativeDevice
from webpte.gpu.native.plan import make_buffer
from webpte_host.setup import vulkan


@cache
def why_not() -> str | None:
    """None if there is a GPU. A driver that does not work is an error, not a reason."""
    try:
        load_dawn().find_adapter()
    except NoWebGPUError as error:
        if vulkan.has_driver():
            raise
        return f"no Vulkan driver is installed, so nothing runs natively: {error}"
    return None


def need_native() -> None:
    """Skips a test where there is no driver; fails it where there is one that does not work."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)


# What every GPU has, of that which kernels ask for.
LEAST = {
    "maxComputeInvocationsPerWorkgroup": 256,
    "maxComputeWorkgroupSizeX": 256,
    "maxComputeWorkgroupStorageSize": 16384,
    "maxStorageBuffersPerShaderStage": 8,
}
WAYS = ("gpu", "least")


def make_device(way: str = "gpu") -> NativeDevice:
    """Make a device that gets a GPU's kernels: with all of its limits, or with the least."""
    dawn = load_dawn()
    adapter, info = dawn.find_adapter()
    limits = info.limits | (LEAST if way == "least" else {})
    info = replace(info, software=False, limits=limits)
    return NativeDevice(dawn.open_device(adapter, info), info)


async def compare(
    program: bytes,
    steps: Sequence[Sequence[np.ndarray]],
    tolerance: float,
    way: str = "gpu",
) -> None:
    """Fused calls with the references of the calls of the file; `tolerance` is of the largest."""
    found = list[list[np.ndarray]]()
    for device in (make_device(way), "numpy"):
        async with await webpte.load(program, device=device) as loaded:
            found.append([output for inputs in steps for output in await loaded.forward(*inputs)])
    for got, want in zip(*found, strict=True):
        finite = np.abs(want[np.isfinite(want)])
        largest = float(finite.max()) if finite.size else 1.0
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * max(largest, 1))


class NativeSubject:
    """For the conformance checks."""

    compiles = True

    def __init__(self, device: NativeDevice) -> None:
        self.device = device

    @classmethod
    async def create(cls) -> NativeSubject:
        return cls(await NativeDevice.create())

    @property
    def too_much(self) -> int:
        return self.device.info.limits["maxStorageBufferBindingSize"] + 4

    def make_native(self, nbytes: int, copyable: bool = True) -> Any:
        usages = ("Storage", "CopyDst", "CopySrc") if copyable else ("Storage",)
        return make_buffer(self.device._device, nbytes, *usages)

    def lose(self) -> None:
        self.device.destroy()
