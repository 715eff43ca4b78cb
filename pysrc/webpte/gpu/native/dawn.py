"""Dawn, the WebGPU of Chrome, as a library in this process: its adapter, device and promises.

The binding is `pydawn` of the package dawn-python: Dawn's C interface by ctypes. It is imported on
first use, here and nowhere else. Dawn says at once what is invalid, so an error scope is a `with`
block; only mapping, compiling and waiting take time, and give a `Promise`.
"""

from __future__ import annotations

import asyncio
import ctypes
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

from webpte.errors import DeviceError, DeviceLostError, NoWebGPUError, OutOfMemoryError
from webpte.gpu.device import DeviceInfo, is_software

INSTALL = (
    "it takes the package dawn-python (`pip install webpte[native]`) and a driver of this "
    "machine's GPU: on Linux one for Vulkan (`apt-get install mesa-vulkan-drivers` has several, "
    "one of them for CPUs); without either there is device='numpy'"
)

# Asked for where the adapter has them: WebGPU's names, and the binding's.
_FEATURES = {
    "shader-f16": "WGPUFeatureName_ShaderF16",
    "subgroups": "WGPUFeatureName_Subgroups",
    "timestamp-query": "WGPUFeatureName_TimestampQuery",
}

# Off: it rounds timestamps to a tenth of a millisecond, for fear of what a page might do with them.
_ROUNDED_TIMESTAMPS = b"timestamp_quantization"

# Results are asked for in growing intervals, a sixteenth of the time waited so far, and the event
# loop gets a turn between. Its timers are no finer than a millisecond, so short naps are slept.
_SHARE = 16
_LONGEST_NAP_S = 0.0002
_NAPPING_S = 0.02
_LONGEST_INTERVAL_S = 0.01


@dataclass(eq=False)
class Promise:
    """What Dawn will say later: a status, what it made, and why it did not."""

    done: bool = False
    status: int = 0
    value: Any = None
    message: str = ""


@cache
def load_dawn() -> Dawn:
    """The library; raises NoWebGPUError where it is not installed, or not for this machine."""
    try:
        from pydawn import webgpu
    except (ImportError, OSError, RuntimeError) as error:
        raise NoWebGPUError(f"device='native' cannot be used ({error}): {INSTALL}") from error
    return Dawn(webgpu)


class Owned:
    """A handle of C with one reference to it, given back when this object goes."""

    def __init__(self, handle: Any, release: Callable[[Any], None]) -> None:
        self.handle = handle
        self._release = release

    def __del__(self) -> None:
        self._release(self.handle)


class Dawn:
    """One instance of the library, for the whole process. `c` has C's functions and structs."""

    def __init__(self, c: Any) -> None:
        self.c = c
        self._instance = c.wgpuCreateInstance(c.WGPUInstanceDescriptor())
        self._keys = count(1)
        self._waiting: dict[int, Promise] = {}
        plain, valued, last = self._settle, self._settle_valued, self._settle_second
        # The struct that C takes for each kind of question, and a callback for as long as Dawn.
        self._kinds = {
            kind: (getattr(c, f"WGPU{name}CallbackInfo2"), getattr(c, f"WGPU{name}Callback2")(back))
            for kind, name, back in (
                ("adapter", "RequestAdapter", valued),
                ("device", "RequestDevice", valued),
                ("pipeline", "CreateComputePipelineAsync", valued),
                ("map", "BufferMap", plain),
                ("done", "QueueWorkDone", lambda status, *rest: plain(status, None, *rest)),
                ("scope", "PopErrorScope", last),
                ("lost", "DeviceLost", last),
            )
        }

    def _settle(self, status: int, message: Any, key: int, _: None, value: Any = None) -> None:
        promise = self._waiting.pop(key)
        promise.status, promise.value = status, value
        promise.message = "" if message is None else text_of(message)
        promise.done = True  # last: a loss may be told by a thread of Dawn's

    def _settle_valued(self, status: int, value: Any, message: Any, key: int, _: None) -> None:
        self._settle(status, message, key, None, value)

    def _settle_second(self, _: Any, status: int, message: Any, key: int, __: None) -> None:
        self._settle(status, message, key, None)

    def promise(self, kind: str, at_once: bool = False) -> tuple[Any, Promise]:
        """What C is told of a callback, and the promise that it keeps: in `poll`, or at once."""
        struct, callback = self._kinds[kind]
        info, promise, key = struct(), Promise(), next(self._keys)
        info.mode = self.c.WGPUCallbackMode_AllowProcessEvents
        if at_once:
            info.mode = self.c.WGPUCallbackMode_AllowSpontaneous
        info.callback, info.userdata1 = callback, key
        self._waiting[key] = promise
        return info, promise

    def poll(self) -> None:
        """Keep the promises that can be kept by now."""
        self.c.wgpuInstanceProcessEvents(self._instance)

    async def wait(self, promise: Promise) -> None:
        started = time.perf_counter()
        self.poll()
        while not promise.done:
            waited = time.perf_counter() - started
            if waited < _NAPPING_S:
                time.sleep(min(waited / _SHARE, _LONGEST_NAP_S))
                await asyncio.sleep(0)
            else:
                await asyncio.sleep(min(waited / _SHARE, _LONGEST_INTERVAL_S))
            self.poll()

    def has_byte_products(self) -> bool:
        """Whether WGSL has `dot4I8Packed` here."""
        feature = self.c.WGPUWGSLFeatureName_Packed4x8IntegerDotProduct
        return bool(self.c.wgpuInstanceHasWGSLLanguageFeature(self._instance, feature))

    def find_adapter(self) -> tuple[Any, DeviceInfo]:
        """The adapter and what it is; raises NoWebGPUError where there is none."""
        options = self.c.WGPURequestAdapterOptions()
        options.powerPreference = self.c.WGPUPowerPreference_HighPerformance
        asked, found = self.promise("adapter", at_once=True)
        self.c.wgpuInstanceRequestAdapter2(self._instance, options, asked)
        facts = self.c.WGPUAdapterInfo()
        subgroups = self.c.WGPUAdapterPropertiesSubgroups()
        subgroups.chain.sType = self.c.WGPUSType_AdapterPropertiesSubgroups
        facts.nextInChain = ctypes.pointer(subgroups.chain)
        if found.value:
            self.c.wgpuAdapterGetInfo(found.value, facts)
        # Where there is nothing, Dawn offers an adapter that does nothing.
        if not found.value or facts.backendType == self.c.WGPUBackendType_Null:
            raise NoWebGPUError(f"device='native' finds no GPU: {INSTALL}")
        info = self._describe(found.value, facts)
        info.limits["subgroupMinSize"] = int(subgroups.subgroupMinSize)
        return found.value, info

    def _describe(self, adapter: Any, facts: Any) -> DeviceInfo:
        c = self.c
        limits = c.WGPUSupportedLimits()
        c.wgpuAdapterGetLimits(adapter, limits)
        names = text_of(facts.vendor), text_of(facts.architecture), text_of(facts.device)
        has = [name for name in _FEATURES if c.wgpuAdapterHasFeature(adapter, self._feature(name))]
        fields = [name for name, _ in limits.limits._fields_ if name.startswith(("max", "min"))]
        return DeviceInfo(
            "native",
            *names,
            software=facts.adapterType == c.WGPUAdapterType_CPU or is_software(*names),
            features=tuple(has),
            limits={name: int(getattr(limits.limits, name)) for name in fields},
        )

    def _feature(self, name: str) -> int:
        number: int = getattr(self.c, _FEATURES[name])
        return number

    def open_device(self, adapter: Any, info: DeviceInfo) -> DawnDevice:
        """A device with the features and limits of `info`, which may be fewer than there are."""
        c = self.c
        limits = c.WGPUSupportedLimits()
        c.wgpuAdapterGetLimits(adapter, limits)
        for name in {name for name, _ in limits.limits._fields_} & info.limits.keys():
            setattr(limits.limits, name, info.limits[name])
        required = c.WGPURequiredLimits(limits=limits.limits)
        features = array_of(c.WGPUFeatureName, map(self._feature, info.features))
        text = ctypes.POINTER(ctypes.c_char)
        rounded = ctypes.create_string_buffer(_ROUNDED_TIMESTAMPS)
        off = array_of(text, [ctypes.cast(rounded, text)])
        toggles = c.WGPUDawnTogglesDescriptor(disabledToggleCount=1, disabledToggles=off)
        toggles.chain.sType = c.WGPUSType_DawnTogglesDescriptor
        descriptor = c.WGPUDeviceDescriptor(
            nextInChain=ctypes.pointer(toggles.chain),
            requiredFeatureCount=len(features),
            requiredFeatures=features,
            requiredLimits=ctypes.pointer(required),
        )
        descriptor.deviceLostCallbackInfo2, lost = self.promise("lost", at_once=True)
        asked, made = self.promise("device", at_once=True)
        c.wgpuAdapterRequestDevice2(adapter, descriptor, asked)
        if not made.done or made.status != c.WGPURequestDeviceStatus_Success:
            raise DeviceError(f"asking for the GPU: {made.message}")
        return DawnDevice(self, made.value, lost)


class DawnDevice:
    """A `WGPUDevice`, its queue, and the promise that is kept when it is lost."""

    def __init__(self, dawn: Dawn, handle: Any, loss: Promise) -> None:
        self.dawn = dawn
        self.c = dawn.c
        self.handle = handle
        self.queue = dawn.c.wgpuDeviceGetQueue(handle)
        self.loss = loss

    def check(self, doing: str) -> None:
        if self.loss.done:
            reason = self.loss.message.rstrip(".")
            raise DeviceLostError(
                f"{doing}: {reason}; call program.recover(), or load the program again"
            )

    @contextmanager
    def scoped(self, doing: str) -> Iterator[None]:
        """What Dawn has against the work in here is raised at the end of it."""
        self.check(doing)
        self.c.wgpuDevicePushErrorScope(self.handle, self.c.WGPUErrorFilter_OutOfMemory)
        self.c.wgpuDevicePushErrorScope(self.handle, self.c.WGPUErrorFilter_Validation)
        try:
            yield
        finally:
            invalid, memory = self._pop_scope(), self._pop_scope()
        self.check(doing)
        if memory is not None:
            raise OutOfMemoryError(f"{doing}: {memory}")
        if invalid is not None:
            raise DeviceError(f"{doing}: {invalid}")

    def _pop_scope(self) -> str | None:
        info, popped = self.dawn.promise("scope", at_once=True)
        self.c.wgpuDevicePopErrorScope2(self.handle, info)
        while not popped.done:  # Dawn keeps it at once, but promises no more than soon
            self.dawn.poll()
        return None if popped.status == self.c.WGPUErrorType_NoError else popped.message

    def map(self, buffer: Any, nbytes: int) -> Promise:
        info, mapped = self.dawn.promise("map")
        self.c.wgpuBufferMapAsync2(buffer, self.c.WGPUMapMode_Read, 0, nbytes, info)
        return mapped

    def work_done(self) -> Promise:
        """Kept when all that was submitted so far is done."""
        info, done = self.dawn.promise("done")
        self.c.wgpuQueueOnSubmittedWorkDone2(self.queue, info)
        return done

    def compile(self, descriptor: Any) -> Promise:
        """A pipeline, made in a thread of Dawn's."""
        info, made = self.dawn.promise("pipeline")
        self.c.wgpuDeviceCreateComputePipelineAsync2(self.handle, descriptor, info)
        return made

    def destroy(self) -> None:
        self.c.wgpuDeviceDestroy(self.handle)
        self.dawn.poll()


def text_of(view: Any) -> str:
    """A `WGPUStringView` as str."""
    if not view.data:
        return ""
    terminated = view.length == 2**64 - 1
    return ctypes.string_at(view.data, -1 if terminated else view.length).decode(errors="replace")


def view_of(c: Any, text: str) -> Any:
    """A str as `WGPUStringView`; ctypes keeps the bytes for as long as the view."""
    encoded = text.encode()
    data = ctypes.cast(ctypes.create_string_buffer(encoded), ctypes.POINTER(ctypes.c_char))
    return c.WGPUStringView(data=data, length=len(encoded))


def array_of(kind: Any, items: Iterable[Any]) -> Any:
    """A C array."""
    listed = list(items)
    return (kind * len(listed))(*listed)
