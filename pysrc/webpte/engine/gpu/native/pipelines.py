"""Compilation by Dawn: modules are parsed in this thread, pipelines compiled in Dawn's."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from webpte.engine.files.download import Progress
from webpte.engine.gpu.device import PipelineSpec
from webpte.engine.gpu.native.dawn import DawnDevice, Owned, Promise, array_of, view_of
from webpte.engine.gpu.native.lavapipe import Settler
from webpte.engine.gpu.pipelines import add_packed_dot
from webpte.errors import DeviceError, OutOfMemoryError, ShaderError

_TYPES = {"read": "ReadOnlyStorage", "write": "Storage", "uniform": "Uniform"}


@dataclass(frozen=True)
class NativePipeline:
    pipeline: Owned
    group_layout: Owned


@dataclass(frozen=True)
class _BindGroupLayout:
    group: Owned
    pipeline: Owned


class NativeCompiler:
    """A compiler of kernels; `pipelines` has all that it compiled, by number.

    `has_packed_dot` is whether kernels may use `dot4I8Packed` of WGSL, and `settles` whether each
    kernel is settled, see lavapipe.py.
    """

    def __init__(
        self,
        device: DawnDevice,
        numbers: Iterator[int],
        has_packed_dot: Callable[[], bool],
        settles: bool = False,
    ) -> None:
        self._device = device
        self._c = device.c
        self._numbers = numbers
        self._has_packed_dot = has_packed_dot
        self._settler = Settler(device) if settles else None
        self._layouts: dict[tuple[str, ...], _BindGroupLayout] = {}
        self.pipelines: dict[int, NativePipeline] = {}

    async def compile(self, specs: Sequence[PipelineSpec], progress: Progress) -> list[int]:
        """Compile all specs, even if one fails; then raises the first ShaderError."""
        modules: dict[str, Owned | ShaderError] = {}
        begun: list[Promise | ShaderError] = []
        for spec in specs:
            if spec.code not in modules:
                modules[spec.code] = self._module(spec)
                await asyncio.sleep(0)  # parsing takes milliseconds
            module = modules[spec.code]
            begun.append(module if isinstance(module, ShaderError) else self._begin(spec, module))
        outcomes: list[int | ShaderError] = []
        for spec, promise in zip(specs, begun, strict=True):
            outcomes.append(await self._finish(spec, promise))
            progress("compile", len(outcomes), len(specs))
        made = [outcome for outcome in outcomes if isinstance(outcome, int)]
        for outcome in outcomes:
            if isinstance(outcome, ShaderError):
                raise outcome
        return made

    def _module(self, spec: PipelineSpec) -> Owned | ShaderError:
        c, code = self._c, add_packed_dot(spec.code, self._has_packed_dot())
        source = c.WGPUShaderSourceWGSL(code=view_of(c, code))
        source.chain.sType = c.WGPUSType_ShaderSourceWGSL
        descriptor = c.WGPUShaderModuleDescriptor(label=view_of(c, spec.label))
        descriptor.nextInChain = ctypes.pointer(source.chain)
        try:
            with self._device.scoped(f"compiling kernels: {spec.label}"):
                handle = c.wgpuDeviceCreateShaderModule(self._device.handle, descriptor)
                return Owned(handle, c.wgpuShaderModuleRelease)
        except OutOfMemoryError:
            raise
        except DeviceError as error:
            self._device.check("compiling kernels")
            return ShaderError(str(error))

    def _begin(self, spec: PipelineSpec, module: Owned) -> Promise:
        c = self._c
        constants = array_of(
            c.WGPUConstantEntry,
            [c.WGPUConstantEntry(key=view_of(c, key), value=n) for key, n in spec.overrides],
        )
        stage = c.WGPUComputeState(
            module=module.handle,
            entryPoint=view_of(c, "main"),
            constantCount=len(constants),
            constants=constants,
        )
        layout = self._layout(spec.bindings).pipeline.handle
        label = view_of(c, spec.label)
        descriptor = c.WGPUComputePipelineDescriptor(label=label, layout=layout, compute=stage)
        return self._device.compile(descriptor)

    async def _finish(
        self, spec: PipelineSpec, promise: Promise | ShaderError
    ) -> int | ShaderError:
        if isinstance(promise, ShaderError):
            return promise
        await self._device.dawn.wait(promise)
        self._device.check("compiling kernels")
        if promise.status != self._c.WGPUCreatePipelineAsyncStatus_Success:
            return ShaderError(f"compiling kernels: {spec.label}: {promise.message}")
        made = Owned(promise.value, self._c.wgpuComputePipelineRelease)
        layout = self._layout(spec.bindings).group
        if self._settler is not None:
            self._settler.settle(spec.label, made.handle, layout.handle, spec.bindings)
        number = next(self._numbers)
        self.pipelines[number] = NativePipeline(made, layout)
        return number

    def _layout(self, bindings: tuple[str, ...]) -> _BindGroupLayout:
        if bindings not in self._layouts:
            self._layouts[bindings] = self._make_layout(bindings)
        return self._layouts[bindings]

    def _make_layout(self, bindings: tuple[str, ...]) -> _BindGroupLayout:
        c, device = self._c, self._device.handle
        entries = array_of(
            c.WGPUBindGroupLayoutEntry, map(self._entry, range(len(bindings)), bindings)
        )
        of_group = c.WGPUBindGroupLayoutDescriptor(entryCount=len(entries), entries=entries)
        group = Owned(
            c.wgpuDeviceCreateBindGroupLayout(device, of_group), c.wgpuBindGroupLayoutRelease
        )
        groups = array_of(c.WGPUBindGroupLayout, [group.handle])
        of_pipeline = c.WGPUPipelineLayoutDescriptor(
            bindGroupLayoutCount=1, bindGroupLayouts=groups
        )
        layout = c.wgpuDeviceCreatePipelineLayout(device, of_pipeline)
        return _BindGroupLayout(group, Owned(layout, c.wgpuPipelineLayoutRelease))

    def _entry(self, binding: int, use: str) -> Any:
        c = self._c
        kind = getattr(c, f"WGPUBufferBindingType_{_TYPES[use]}")
        entry = c.WGPUBindGroupLayoutEntry(binding=binding, visibility=c.WGPUShaderStage_Compute)
        entry.buffer = c.WGPUBufferBindingLayout(type=kind)
        return entry
