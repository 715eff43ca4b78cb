"""Dawn, Chrome's WebGPU, as a library in this process: its devices and promises.

The binding is `pydawn` of the package dawn-python: Dawn's C interface through ctypes. Only this
module imports it, on first use. Dawn reports invalid commands at once, so an error scope is a
`with` block; only mapping, compiling and waiting take time, and return a `Promise`.
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

from webpte.engine.gpu.device_info import DeviceInfo
from webpte.errors import DeviceError, DeviceLostError, NoWebGPUError, OutOfMemoryError

INSTALL = (
    "it needs the package dawn-python (`pip install webpte[native]`) and a driver for this "
    "machine's GPU: on Linux one for Vulkan (`apt-get install mesa-vulkan-drivers` has several, "
    "one of them for CPUs); without these, use device='numpy'"
)

# Requested if the adapter has them: WebGPU's names, and the binding's names.
FEATURES = {
    "shader-f16": "WGPUFeatureName_ShaderF16",
    "subgroups": "WGPUFeatureName_Subgroups",
    "timestamp-query": "WGPUFeatureName_TimestampQuery",
}

# Disabled: this feature rounds timestamps to 0.1 ms, which protects browsers from timing attacks.
_ROUNDED_TIMESTAMPS = b"timestamp_quantization"

# Results are polled in growing intervals, a sixteenth of the time waited so far, with a turn of the
# event loop between. The loop's timers are no finer than a millisecond, so short intervals are
# slept.
_SHARE = 16
_LONGEST_NAP_S = 0.0002
_NAPPING_S = 0.02
_LONGEST_INTERVAL_S = 0.01


@dataclass(eq=False)
class Promise:
    """A later answer of Dawn: a status, a value, and a message if it failed."""

    done: bool = False
    status: int = 0
    value: Any = None
    message: str = ""


@cache
def load_dawn() -> Dawn:
    """Load the library; raises NoWebGPUError if it is not installed, or not for this machine."""
    try:
        from pydawn import webgpu
    except (ImportError, OSError, RuntimeError) as error:
        raise NoWebGPUError(f"device='native' cannot be used ({error}): {INSTALL}") from error
    return Dawn(webgpu)


class Owned:
    """A C handle with a single reference, released with this object."""

    def __init__(self, handle: Any, release: Callable[[Any], None]) -> None:
        self.handle = handle
        self._release = release

    def __del__(self) -> None:
        self._release(self.handle)


class Dawn:
    """The library's instance for the whole process. `c` has C's functions and structs."""

    def __init__(self, c: Any) -> None:
        self.c = c
        self.library = c._libraries[c.lib_name]
        self.instance = c.wgpuCreateInstance(c.WGPUInstanceDescriptor())
        self._keys = count(1)
        self._waiting: dict[int, Promise] = {}
        plain, valued, last = self._settle, self._settle_valued, self._settle_second
        # The struct for each kind of request, and a callback that lives as long as Dawn.
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
        promise.done = True  # last: a thread of Dawn may report a loss

    def _settle_valued(self, status: int, value: Any, message: Any, key: int, _: None) -> None:
        self._settle(status, message, key, None, value)

    def _settle_second(self, _: Any, status: int, message: Any, key: int, __: None) -> None:
        self._settle(status, message, key, None)

    def promise(self, kind: str, at_once: bool = False) -> tuple[Any, Promise]:
        """Return a callback for C and the promise that it settles: in `poll`, or at once."""
        struct, callback = self._kinds[kind]
        info, promise, key = struct(), Promise(), next(self._keys)
        info.mode = self.c.WGPUCallbackMode_AllowProcessEvents
        if at_once:
            info.mode = self.c.WGPUCallbackMode_AllowSpontaneous
        info.callback, info.userdata1 = callback, key
        self._waiting[key] = promise
        return info, promise

    def poll(self) -> None:
        """Settle the promises whose answers have arrived."""
        self.c.wgpuInstanceProcessEvents(self.instance)

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

    def has_packed_dot(self) -> bool:
        """Return whether WGSL has `dot4I8Packed` here."""
        feature = self.c.WGPUWGSLFeatureName_Packed4x8IntegerDotProduct
        return bool(self.c.wgpuInstanceHasWGSLLanguageFeature(self.instance, feature))

    def feature(self, name: str) -> int:
        """Return the binding's number of a feature, by WebGPU's name."""
        number: int = getattr(self.c, FEATURES[name])
        return number

    def open_device(self, adapter: Any, info: DeviceInfo) -> DawnDevice:
        """Open a device with the features and limits of `info`, at most the adapter's."""
        c = self.c
        limits = c.WGPUSupportedLimits()
        c.wgpuAdapterGetLimits(adapter, limits)
        for name in {name for name, _ in limits.limits._fields_} & info.limits.keys():
            setattr(limits.limits, name, info.limits[name])
        required = c.WGPURequiredLimits(limits=limits.limits)
        features = array_of(c.WGPUFeatureName, map(self.feature, info.features))
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
        request, made = self.promise("device", at_once=True)
        c.wgpuAdapterRequestDevice2(adapter, descriptor, request)
        if not made.done or made.status != c.WGPURequestDeviceStatus_Success:
            raise DeviceError(f"requesting the GPU: {made.message}")
        return DawnDevice(self, made.value, lost)


class DawnDevice:
    """A `WGPUDevice`, its queue, and a promise that settles when it is lost."""

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
        """An error scope: Dawn's errors about the work in it are raised at its end."""
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
        while not popped.done:  # Dawn settles the promise at once, but does not guarantee that
            self.dawn.poll()
        return None if popped.status == self.c.WGPUErrorType_NoError else popped.message

    def map(self, buffer: Any, nbytes: int) -> Promise:
        info, mapped = self.dawn.promise("map")
        self.c.wgpuBufferMapAsync2(buffer, self.c.WGPUMapMode_Read, 0, nbytes, info)
        return mapped

    def work_done(self) -> Promise:
        """Return a promise that settles when everything submitted so far is done."""
        info, done = self.dawn.promise("done")
        self.c.wgpuQueueOnSubmittedWorkDone2(self.queue, info)
        return done

    def compile(self, descriptor: Any) -> Promise:
        """Compile a pipeline in a thread of Dawn."""
        info, made = self.dawn.promise("pipeline")
        self.c.wgpuDeviceCreateComputePipelineAsync2(self.handle, descriptor, info)
        return made

    def destroy(self) -> None:
        self.c.wgpuDeviceDestroy(self.handle)
        self.dawn.poll()


def text_of(view: Any) -> str:
    """Convert a `WGPUStringView` to str."""
    if not view.data:
        return ""
    terminated = view.length == 2**64 - 1
    return ctypes.string_at(view.data, -1 if terminated else view.length).decode(errors="replace")


def view_of(c: Any, text: str) -> Any:
    """Convert a str to `WGPUStringView`; ctypes keeps the bytes as long as the view."""
    encoded = text.encode()
    data = ctypes.cast(ctypes.create_string_buffer(encoded), ctypes.POINTER(ctypes.c_char))
    return c.WGPUStringView(data=data, length=len(encoded))


def array_of(kind: Any, items: Iterable[Any]) -> Any:
    """Build a C array."""
    listed = list(items)
    return (kind * len(listed))(*listed)
