"""The description of a compiled program: everything that a page needs, as JSON and WGSL.

docs/use/compiled.md documents the fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from webpte.compiling.plans import Table
from webpte.compiling.trim_wgsl import trim
from webpte.engine.gpu.device import UNIFORM_ALIGNMENT, PipelineSpec
from webpte.engine.gpu.device_info import (
    BINDING_LIMIT,
    BUFFER_LIMIT,
    CLOCK,
    MATRICES,
    MATRIX_SUBGROUP,
    PHONE_LIMITS,
)
from webpte.engine.gpu.pipelines import PACKED_DOT, add_packed_dot
from webpte.engine.gpu.recording.device import RecordingDevice

FORMAT, VERSION = "webpte compiled program", 1
WGSL = "wgsl"


class Numbers:
    """New numbers, from 0 on, of the objects that are used, in the order of their first use."""

    def __init__(self) -> None:
        self._new: dict[int, int] = {}

    def __getitem__(self, old: int) -> int:
        return self._new.setdefault(old, len(self._new))

    def __contains__(self, old: object) -> bool:
        return old in self._new

    @property
    def used(self) -> list[int]:
        """The old numbers, in the order of the new numbers."""
        return list(self._new)


class Description:
    """The description of methods whose tables have the numbers of a recording device.

    methods  their tables, with new numbers
    shaders  the WGSL files, by name
    """

    def __init__(self, device: RecordingDevice, methods: Mapping[str, Table]) -> None:
        self._device = device
        self._buffers, self._kernels = Numbers(), Numbers()
        self.shaders: dict[str, str] = {}
        self._methods = {name: self._method(table) for name, table in methods.items()}

    def uses(self, buffer: int) -> bool:
        """Return whether a plan uses a buffer of the device."""
        return buffer in self._buffers

    def table(
        self, name: str, files: Mapping[str, int], constants: Sequence[Sequence[Any]]
    ) -> Table:
        """Return the whole description.

        files      sizes in bytes
        constants  rows of buffer, file, offset, size and conversion
        """
        device, used, names = self._device, self._buffers.used, list(files)
        kernels = [self._kernel(device.specs[number]) for number in self._kernels.used]
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": name,
            "device": self.needs(),
            "files": [{"name": file, "bytes": size} for file, size in files.items()],
            "buffers": [device.sizes[buffer] for buffer in used],
            "uses": [device.uses[buffer] for buffer in used],
            "contents": list(self._contents()),
            "constants": [
                [self._buffers[buffer], names.index(file), *rest]
                for buffer, file, *rest in constants
            ],
            "kernels": kernels,
            "methods": self._methods,
        }

    def _method(self, table: Table) -> Table:
        if "plans" not in table:
            return table
        return {**table, "plans": [self._plan(plan) for plan in table["plans"]]}

    def _plan(self, plan: Table) -> Table:
        buffers = self._buffers
        return plan | {
            "uploads": [[buffers[buffer], *rest] for buffer, *rest in plan["uploads"]],
            "clears": [buffers[buffer] for buffer in plan["clears"]],
            "dispatches": [
                [self._kernels[kernel], [[buffers[b], *rest] for b, *rest in resources], grid]
                for kernel, resources, grid in plan["dispatches"]
            ],
            "readbacks": [[buffers[buffer], *rest] for buffer, *rest in plan["readbacks"]],
        }

    def _kernel(self, spec: PipelineSpec) -> Table:
        code = trim(add_packed_dot(spec.code, self._device.info.packed_dot))
        stem = re.sub(r"[^a-z0-9]+", "-", spec.label.lower()).strip("-")[:40].rstrip("-")
        file = f"{WGSL}/{stem}-{sha256(code.encode()).hexdigest()[:8]}.wgsl"
        self.shaders[file] = code
        overrides = {name: float(value) for name, value in spec.overrides}
        return {
            "label": spec.label,
            "wgsl": file,
            "bindings": list(spec.bindings),
            "overrides": overrides,
        }

    def _contents(self) -> Iterator[list[Any]]:
        """Yield [buffer, offset, words] of every block of the uniform buffers that is not zero."""
        for old in self._buffers.used:
            if old not in self._device.contents:
                continue
            blocks = self._device.contents[old].view(np.uint32).reshape(-1, UNIFORM_ALIGNMENT // 4)
            for index, block in enumerate(blocks):
                if block.any():
                    words = block[: int(np.flatnonzero(block)[-1]) + 1]
                    yield [self._buffers[old], index * UNIFORM_ALIGNMENT, words.tolist()]

    def needs(self) -> Table:
        """Return the features and limits that a GPU must have, beyond WebGPU's defaults."""
        info, sizes = self._device.info, [self._device.sizes[b] for b in self._buffers.used]
        largest = max(sizes, default=0)
        needed = {BINDING_LIMIT: largest, BUFFER_LIMIT: largest}
        limits = {name: needed.get(name, info.limits.get(name, 0)) for name in PHONE_LIMITS}
        more: Table = {}
        if info.packed_dot and any(PACKED_DOT in code for code in self.shaders.values()):
            more["packedDot"] = True
        if MATRICES in info.features:
            more |= {"matrices": list(info.matrix_shapes), "subgroup": MATRIX_SUBGROUP}
        return {
            "features": [name for name in info.features if name != CLOCK],
            "limits": {name: limit for name, limit in limits.items() if limit > PHONE_LIMITS[name]},
            **more,
        }
