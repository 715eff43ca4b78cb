"""The devices that programs share unless they are given other devices."""

from __future__ import annotations

import asyncio

from webpte.engine.browser import IN_BROWSER
from webpte.engine.gpu.choose_adapter import AdapterInfo
from webpte.engine.gpu.device import Device
from webpte.errors import DeviceError

SHARED = ("webgpu", "native")  # the kinds of devices that are GPUs
NAMES = (*SHARED, "numpy")  # all names that `load` takes; "native:..." chooses among several GPUs


class _SharedDevices:
    """A device for each GPU: programs on it can share buffers and pipelines."""

    made: dict[str, Device] = {}  # noqa: RUF012 - there is no instance
    lock: asyncio.Lock | None = None


def kind_of(name: str) -> str:
    """Return the kind of a device by its name: "native" for "native:1"."""
    kind, _, which = name.partition(":")
    return kind if kind == "native" and which.strip() else name


async def shared_device(name: str = "webgpu") -> Device:
    """Return the default device, opened on first use and again after it was lost.

    name    "webgpu": the browser's; "native": this machine's, from CPython; "native:1",
            "native:nvidia", "native:10de:2335": a GPU among several, by the index that
            `native_adapters` gives it, a part of its name, or its PCI id
    """
    kind = kind_of(name)
    if kind not in SHARED:
        raise DeviceError(f"no GPU is called {name!r}; there are {' and '.join(map(repr, SHARED))}")
    _check_place(kind)
    key = f"native:{_place(name)}" if kind == "native" else kind
    _SharedDevices.lock = _SharedDevices.lock or asyncio.Lock()
    async with _SharedDevices.lock:
        device = _SharedDevices.made.get(key)
        if device is None or device.lost:
            device = _SharedDevices.made[key] = await _make(name)
    return device


def native_adapters() -> tuple[AdapterInfo, ...]:
    """List this machine's GPUs, which `device="native:INDEX"` chooses from, in CPython."""
    _check_place("native")
    from webpte.engine.gpu.native.adapters import list_adapters
    from webpte.engine.gpu.native.dawn import load_dawn

    return tuple(found.adapter for found in list_adapters(load_dawn()))


def _check_place(kind: str) -> None:
    """Raise DeviceError for a kind of device that is not available here."""
    if kind == "native" and IN_BROWSER:
        raise DeviceError("device='native' is for CPython; in the browser there is 'webgpu'")
    if kind == "webgpu" and not IN_BROWSER:
        raise DeviceError(
            "WebGPU needs a browser: run this in Pyodide, or load with device='native' (the GPU, "
            "by the package dawn-python) or device='numpy'"
        )


def _which(name: str) -> str:
    return name.partition(":")[2].strip()


def _place(name: str) -> int:
    """Return the identity of the named GPU: several names can mean the same GPU."""
    from webpte.engine.gpu.native.adapters import find_adapter
    from webpte.engine.gpu.native.dawn import load_dawn

    return find_adapter(load_dawn(), _which(name)).place


async def _make(name: str) -> Device:
    if kind_of(name) == "native":
        from webpte.engine.gpu.native.device import NativeDevice

        return await NativeDevice.create(adapter=_which(name))
    from webpte.engine.gpu.webgpu.device import WebGPUDevice

    return await WebGPUDevice.create()


def made_device() -> Device:
    """Return the default device if it is open already."""
    for device in _SharedDevices.made.values():
        return device
    raise DeviceError(
        "there is no GPU device yet: load a program, or `await webpte.shared_device()`, first"
    )
