"""The native device for tests: the reason if there is none, and devices with a GPU's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import webpte
from webpte.engine.gpu.device_info import like_a_phone
from webpte.engine.gpu.native.adapters import find_adapter
from webpte.engine.gpu.native.dawn import load_dawn
from webpte.engine.gpu.native.device import NativeDevice
from webpte.engine.gpu.native.plan import make_buffer
from webpte.errors import NoWebGPUError
from webpte_host.setup import vulkan


@cache
def why_not() -> str | None:
    """Return why there is no GPU, None if there is a GPU. A broken driver is an error."""
    try:
        find_adapter(load_dawn())
    except NoWebGPUError as error:
        if vulkan.has_driver():
            raise
        return f"no Vulkan driver is installed, so nothing runs natively: {error}"
    return None


def need_native() -> None:
    """Skip a test without a driver; fail it with a broken one."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)


ADAPTERS = ("gpu", "phone")


def make_device(adapter: str = "gpu") -> NativeDevice:
    """Make a device that gets a GPU's kernels: with all of its limits, or with a phone's.

    A "plain" device gets a software adapter's kernels.
    """
    dawn = load_dawn()
    found = find_adapter(dawn)
    info = like_a_phone(found.info) if adapter == "phone" else found.info
    info = replace(info, software=adapter == "plain")
    return NativeDevice(dawn.open_device(found.owned.handle, info), info)


@cache
def shared_device(adapter: str = "gpu") -> NativeDevice:
    """Return the device of all tests that change nothing about it: each kernel compiles once."""
    return make_device(adapter)


async def compare(
    program: bytes,
    steps: Sequence[Sequence[np.ndarray]],
    tolerance: float,
    adapter: str = "gpu",
) -> None:
    """Compare fused calls with the references; `tolerance` is relative to the largest element."""
    found = list[list[np.ndarray]]()
    for device in (shared_device(adapter), "numpy"):
        async with await webpte.load(program, device=device) as loaded:
            found.append([output for inputs in steps for output in await loaded.forward(*inputs)])
    for got, want in zip(*found, strict=True):
        finite = np.abs(want[np.isfinite(want)])
        largest = float(finite.max()) if finite.size else 1.0
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * max(largest, 1))


class NativeSubject:
    """The native device as a subject of the conformance checks."""

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
