"""The devices that programs share unless they are given others."""

from __future__ import annotations

import asyncio

from webpte.errors import DeviceError
from webpte.gpu.device import Device
from webpte.runtime.base.open import IN_BROWSER

SHARED = ("webgpu", "native")  # the devices that are GPUs, by name
NAMES = (*SHARED, "numpy")  # all that `load` takes


class _SharedDevices:
    """One GPU device of each kind: programs on it can share buffers and pipelines."""

    made: dict[str, Device] = {}  # noqa: RUF012 - there is no instance
    lock: asyncio.Lock | None = None


async def shared_device(name: str = "webgpu") -> Device:
    """Return the default device, opened on first use and again after it was lost.

    name    "webgpu": the browser's; "native": this machine's, from CPython
    """
    if name not in SHARED:
        raise DeviceError(f"no GPU is called {name!r}; there are {' and '.join(map(repr, SHARED))}")
    _SharedDevices.lock = _SharedDevices.lock or asyncio.Lock()
    async with _SharedDevices.lock:
        device = _SharedDevices.made.get(name)
        if device is None or device.lost:
            device = _SharedDevices.made[name] = await _make(name)
    return device


async def _make(name: str) -> Device:
    if name == "native":
        if IN_BROWSER:
            raise DeviceError("device='native' is for CPython; in the browser there is 'webgpu'")
        from webpte.gpu.native.device import NativeDevice

        return await NativeDevice.create()
    if not IN_BROWSER:
        raise DeviceError(
            "WebGPU needs a browser: run this in Pyodide, or load with device='native' (the GPU, "
            "by the package dawn-python) or device='numpy'"
        )
    from webpte.gpu.webgpu.device import WebGPUDevice

    return await WebGPUDevice.create()


def made_device() -> Device:
    """Return the default device if it is open already."""
    for device in _SharedDevices.made.values():
        return device
    raise DeviceError(
        "there is no GPU device yet: load a program, or `await webpte.shared_device()`, first"
    )
