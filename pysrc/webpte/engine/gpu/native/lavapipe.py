"""A dispatch of no workgroups, after which lavapipe does not compile a kernel again.

Mesa's lavapipe reads the uniforms of a dispatch, puts the uniforms that end loops or decide
conditions into the kernel as constants, and compiles the result. If little changed, it uses the
plain kernel from then on. But if a short loop was unrolled, or half of the kernel fell away, it
compiles the kernel again each time that it is bound, and frees no result: 0.4 MB and more (Mesa
22.3). Uniforms as large as in the dispatch here unroll nothing and take little away, so it mostly
settles on the plain kernel; not for conv3d.wgsl, with any uniforms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from webpte.engine.gpu.device import UNIFORM_BYTES
from webpte.engine.gpu.native.dawn import DawnDevice, Owned, array_of
from webpte.engine.gpu.native.plan import (
    NativeBuffer,
    begin_pass,
    make_buffer,
    submission,
    write_buffer,
)

_LARGE = 0x7F7F7F7F  # as a signed, an unsigned or a float number


def is_lavapipe(description: str) -> bool:
    """Return whether an adapter with this description is lavapipe's."""
    return "llvmpipe" in description.lower()


class Settler:
    """Buffers for the dispatches of no workgroups, made when they are first needed."""

    def __init__(self, device: DawnDevice) -> None:
        self._device = device
        self._buffers: dict[str, NativeBuffer] = {}

    def settle(self, label: str, pipeline: Any, layout: Any, bindings: tuple[str, ...]) -> None:
        """Dispatch no workgroups of a pipeline, with large uniforms."""
        c, device = self._device.c, self._device
        with device.scoped(f"compiling kernels: {label}"):
            # A buffer that is written to may be bound only once.
            names = [f"write {n}" if use == "write" else use for n, use in enumerate(bindings)]
            entries = [
                c.WGPUBindGroupEntry(
                    binding=number, buffer=self._buffer(name).handle, offset=0, size=UNIFORM_BYTES
                )
                for number, name in enumerate(names)
            ]
            descriptor = c.WGPUBindGroupDescriptor(
                layout=layout,
                entryCount=len(entries),
                entries=array_of(c.WGPUBindGroupEntry, entries),
            )
            group = Owned(
                c.wgpuDeviceCreateBindGroup(device.handle, descriptor), c.wgpuBindGroupRelease
            )
            with submission(device) as encoder:
                compute = begin_pass(c, encoder, None)
                c.wgpuComputePassEncoderSetPipeline(compute.handle, pipeline)
                c.wgpuComputePassEncoderSetBindGroup(compute.handle, 0, group.handle, 0, None)
                c.wgpuComputePassEncoderDispatchWorkgroups(compute.handle, 0, 0, 0)
                c.wgpuComputePassEncoderEnd(compute.handle)

    def _buffer(self, name: str) -> NativeBuffer:
        if name not in self._buffers:
            usage = "Uniform" if name == "uniform" else "Storage"
            made = make_buffer(self._device, UNIFORM_BYTES, usage, "CopyDst")
            write_buffer(self._device, made, 0, np.full(UNIFORM_BYTES // 4, _LARGE, np.uint32))
            self._buffers[name] = made
        return self._buffers[name]
