"""The adapters of this machine, by Dawn.

Its C interface gives the adapter that suits options best, and no list. Its C++ interface gives a
list, `dawn::native::Instance::EnumerateAdapters`, which the binding's libraries for Linux and macOS
export. Where the list is missing, the adapters are found by requests with different options.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from webpte.engine.gpu.choose_adapter import HIDING, AdapterInfo, choose, visible
from webpte.engine.gpu.device_info import DeviceInfo, is_software
from webpte.engine.gpu.native.dawn import FEATURES, INSTALL, Dawn, Owned, text_of
from webpte.errors import NoWebGPUError

_LARGEST_PCI_VENDOR = 0xFFFF  # Khronos gives larger numbers to software
_ENUMERATE = "_ZNK4dawn6native8Instance17EnumerateAdaptersEPK25WGPURequestAdapterOptions"


@dataclass(frozen=True, eq=False)
class Adapter:
    """An adapter of Dawn's and its facts.

    place       its number among all adapters, which is its identity in this process
    adapter     facts, with its number among the visible adapters
    info        the features and limits of a device on it
    """

    place: int
    owned: Owned
    adapter: AdapterInfo
    info: DeviceInfo


def list_adapters(dawn: Dawn) -> list[Adapter]:
    """List the adapters that are visible, in the order in which Dawn prefers them."""
    found = [Adapter(place, *parts) for place, parts in enumerate(_enumerate(dawn))]
    shown = visible([one.adapter for one in found])
    return [
        replace(found[place], adapter=replace(found[place].adapter, index=index))
        for index, place in enumerate(shown)
    ]


def find_adapter(dawn: Dawn, wanted: str = "") -> Adapter:
    """Return the first adapter that `wanted` describes; see `choose`.

    If nothing is chosen and nothing hidden, Dawn is asked for its preferred adapter, without a
    list.
    """
    hiding = [name for name in HIDING if name in os.environ]
    if not wanted and not hiding:
        preferred = next(_request(dawn), None)
        found = [] if preferred is None else [Adapter(0, *preferred)]
    else:
        found = list_adapters(dawn)
    if not found:
        hint = f" ({' and '.join(hiding)} may hide it)" if hiding else ""
        raise NoWebGPUError(f"device='native' finds no GPU{hint}: {INSTALL}")
    return found[choose([one.adapter for one in found], wanted)]


class _Vector(ctypes.Structure):
    """A `std::vector`: large enough that C and C++ return it in the same way."""

    _fields_ = (
        ("begin", ctypes.c_void_p),
        ("end", ctypes.c_void_p),
        ("capacity", ctypes.c_void_p),
    )


_Described = tuple[Owned, AdapterInfo, DeviceInfo]


def _enumerate(dawn: Dawn) -> Iterator[_Described]:
    """Yield all adapters with their facts, Dawn's preferred adapters first."""
    c = dawn.c
    options = c.WGPURequestAdapterOptions()
    options.powerPreference = c.WGPUPowerPreference_HighPerformance
    try:
        enumerate_adapters = dawn.library[_ENUMERATE]
    except AttributeError:
        yield from _request(dawn)
        return
    enumerate_adapters.restype = _Vector
    enumerate_adapters.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    instance = ctypes.cast(dawn.instance, ctypes.c_void_p)  # the only member of the C++ class
    found = enumerate_adapters(ctypes.byref(instance), ctypes.byref(options))
    size = ctypes.sizeof(ctypes.c_void_p)
    for address in range(found.begin or 0, found.end or 0, size):
        # each adapter comes with a reference, which this process now owns
        handle = ctypes.c_void_p.from_address(address)
        owned = Owned(ctypes.cast(handle, c.WGPUAdapter), c.wgpuAdapterRelease)
        if (described := _describe(dawn, owned)) is not None:
            yield described


def _request(dawn: Dawn) -> Iterator[_Described]:
    """Yield the adapters that requests find, with their facts; requests can miss some."""
    c = dawn.c
    seen = set()
    for preference in (c.WGPUPowerPreference_HighPerformance, c.WGPUPowerPreference_LowPower):
        for fallback in (0, 1):
            options = c.WGPURequestAdapterOptions()
            options.powerPreference, options.forceFallbackAdapter = preference, fallback
            request, found = dawn.promise("adapter", at_once=True)
            c.wgpuInstanceRequestAdapter2(dawn.instance, options, request)
            if not found.value:
                continue
            owned = Owned(found.value, c.wgpuAdapterRelease)
            described = _describe(dawn, owned)
            if described is not None and described[1] not in seen:
                seen.add(described[1])
                yield described


def _describe(dawn: Dawn, owned: Owned) -> _Described | None:
    """Return the adapter's facts, or None for the adapter that computes nothing.

    Dawn offers the latter on every machine.
    """
    c, adapter = dawn.c, owned.handle
    facts = c.WGPUAdapterInfo()
    subgroups = c.WGPUAdapterPropertiesSubgroups()
    subgroups.chain.sType = c.WGPUSType_AdapterPropertiesSubgroups
    facts.nextInChain = ctypes.pointer(subgroups.chain)
    heaps = c.WGPUAdapterPropertiesMemoryHeaps()
    heaps.chain.sType = c.WGPUSType_AdapterPropertiesMemoryHeaps
    if c.wgpuAdapterHasFeature(adapter, c.WGPUFeatureName_AdapterPropertiesMemoryHeaps):
        subgroups.chain.next = ctypes.pointer(heaps.chain)
    c.wgpuAdapterGetInfo(adapter, facts)
    names = text_of(facts.vendor), text_of(facts.architecture), text_of(facts.device)
    driver, backend = text_of(facts.description), facts.backendType
    memory = _own_memory(c, heaps)
    pci_id = f"{facts.vendorID:04x}:{facts.deviceID:04x}"
    pci_id = "" if facts.vendorID > _LARGEST_PCI_VENDOR else pci_id
    software = _software(facts.adapterType == c.WGPUAdapterType_CPU, names)
    c.wgpuAdapterInfoFreeMembers(facts)
    if backend == c.WGPUBackendType_Null:
        return None
    called = c.WGPUBackendType__enumvalues[backend].removeprefix("WGPUBackendType_")
    info = _device_info(dawn, adapter, names, software != "")
    info.limits["subgroupMinSize"] = int(subgroups.subgroupMinSize)
    name = names[2] or names[1]
    told = AdapterInfo(0, name, names[0], pci_id, called, driver, memory, software)
    return owned, told, info


def _own_memory(c: Any, heaps: Any) -> int | None:
    """Return the size in bytes of the GPU's largest own heap; frees the list of heaps."""
    local = [
        int(heaps.heapInfo[place].size)
        for place in range(heaps.heapCount)
        if heaps.heapInfo[place].properties & c.WGPUHeapProperty_DeviceLocal
    ]
    c.wgpuAdapterPropertiesMemoryHeapsFreeMembers(heaps)
    return max(local, default=None)


def _software(is_cpu: bool, names: Sequence[str]) -> str:
    if is_cpu:
        return "the driver says that it is a CPU"
    return "a software driver by its name" if is_software(*names) else ""


def _device_info(
    dawn: Dawn, adapter: Any, names: tuple[str, str, str], software: bool
) -> DeviceInfo:
    c = dawn.c
    limits = c.WGPUSupportedLimits()
    c.wgpuAdapterGetLimits(adapter, limits)
    fields = [name for name, _ in limits.limits._fields_ if name.startswith(("max", "min"))]
    return DeviceInfo(
        "native",
        *names,
        software=software,
        features=tuple(
            name for name in FEATURES if c.wgpuAdapterHasFeature(adapter, dawn.feature(name))
        ),
        limits={name: int(getattr(limits.limits, name)) for name in fields},
        packed_dot=dawn.has_packed_dot(),
    )
