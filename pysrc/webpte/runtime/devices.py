"""The device that programs share unless they are given another."""

from __future__ import annotations

import asyncio
from typing import Any

from webpte.errors import DeviceError
from webpte.gpu.device import Device
from webpte.runtime.open import IN_BROWSER


class _SharedDevice:
    """The browser context's one GPU device: programs on it can share buffers and pipelines."""

    device: Any = None
    lock: asyncio.Lock | None = None


async def shared_device() -> Device:
    """The default device, made on first use and again after it was lost."""
    if not IN_BROWSER:
        raise DeviceError(
            "WebGPU needs a browser: run this in Pyodide, or load with device='numpy'"
        )
    from webpte.gpu.webgpu import WebGPUDevice

    _SharedDevice.lock = _SharedDevice.lock or asyncio.Lock()
    async with _SharedDevice.lock:
        if _SharedDevice.device is None or _SharedDevice.device.lost:
            _SharedDevice.device = await WebGPUDevice.create()
    device: Device = _SharedDevice.device
    return device


def made_device() -> Device:
    """The default device, if something has made it."""
    device: Device | None = _SharedDevice.device
    if device is None:
        raise DeviceError(
            "there is no GPU device yet: load a program, or `await webpte.shared_device()`, first"
        )
    return device
