"""The native device for tests: there, or clearly said why not."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from webpte.errors import NoWebGPUError
from webpte.gpu.dawn import load_dawn
from webpte.gpu.native import NativeDevice
from webpte.gpu.native_plan import make_buffer
from webpte_host import vulkan


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
