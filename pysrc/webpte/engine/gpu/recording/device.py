"""A device that keeps all commands of a program, for a device elsewhere to run.

Loading a program on a `RecordingDevice` plans everything that a GPU would get: buffers, kernels,
constants, uniform blocks and plans. Nothing is computed, so results cannot be awaited.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from itertools import count
from typing import Any, NoReturn

import numpy as np

from webpte.engine.files.download import Progress
from webpte.engine.gpu.device import (
    BufferUse,
    GpuCopy,
    PipelineSpec,
    PlanCommands,
    PlanRun,
    Transfer,
)
from webpte.engine.gpu.device_info import PHONE_LIMITS, DeviceInfo, check_sizes
from webpte.errors import DeviceError, UnsupportedError

# A GPU without optional features, at WebGPU's default limits: commands for it run on every GPU.
EVERY_GPU = DeviceInfo("recording", limits=dict(PHONE_LIMITS))


class RecordingDevice:
    """A device whose commands stay readable: all objects are kept until they are destroyed.

    sizes      bytes of each buffer, by its number
    uses       the use of each buffer, as in `create_buffers`
    contents   bytes that were written to a buffer, as long as the buffer
    transfers  constants of files that go into buffers
    """

    def __init__(self, info: DeviceInfo = EVERY_GPU) -> None:
        self.info = info
        self.interop_calls = 0
        self.lost = False
        self.sizes: dict[int, int] = {}
        self.uses: dict[int, BufferUse] = {}
        self.contents: dict[int, np.ndarray] = {}
        self.transfers: list[Transfer] = []
        self.specs: dict[int, PipelineSpec] = {}
        self.plans: dict[int, PlanCommands] = {}
        self._numbers = count(1)
        self._pipelines: dict[PipelineSpec, int] = {}

    async def measure_waiting(self) -> None:
        """Do nothing: there is nothing to wait for."""

    # Buffers

    async def create_buffers(self, sizes: Sequence[int], use: BufferUse = "storage") -> list[int]:
        check_sizes(self.info, sizes, use == "uniform")
        made = {next(self._numbers): size for size in sizes}
        self.sizes |= made
        self.uses |= dict.fromkeys(made, use)
        return list(made)

    def destroy_buffers(self, buffers: Sequence[int]) -> None:
        for buffer in buffers:
            del self.sizes[buffer]
            del self.uses[buffer]
            self.contents.pop(buffer, None)
        self.transfers = [one for one in self.transfers if one.buffer in self.sizes]

    def write(self, buffer: int, offset: int, data: np.ndarray) -> None:
        size = self.sizes[buffer]
        if offset + data.nbytes > size:
            raise DeviceError(
                f"bytes {offset} to {offset + data.nbytes} of buffer {buffer}, which has {size}"
            )
        held = self.contents.setdefault(buffer, np.zeros(size, np.uint8))
        held[offset : offset + data.nbytes] = np.frombuffer(data.tobytes(), np.uint8)

    async def transfer(
        self, transfers: Sequence[Transfer], progress: Progress | None = None
    ) -> None:
        self.transfers += transfers

    # Plans

    async def create_pipelines(
        self, specs: Sequence[PipelineSpec], progress: Progress | None = None
    ) -> list[int]:
        for spec in specs:
            if spec not in self._pipelines:
                number = self._pipelines[spec] = next(self._numbers)
                self.specs[number] = spec
        return [self._pipelines[spec] for spec in specs]

    async def create_plan(self, commands: PlanCommands) -> int:
        plan = next(self._numbers)
        self.plans[plan] = commands
        return plan

    def destroy_plan(self, plan: int) -> None:
        del self.plans[plan]

    # Work that only a GPU can do

    def run(self, run: PlanRun) -> Awaitable[bytes]:
        self._refuse("a run")

    def profile(self, run: PlanRun) -> Awaitable[tuple[bytes, list[float]]]:
        self._refuse("a timed run")

    def read(self, buffer: int, nbytes: int) -> Awaitable[bytes]:
        self._refuse("the contents of a buffer")

    def copy(self, copies: Sequence[GpuCopy]) -> None:
        self._refuse("a copy of a buffer")

    @property
    def native(self) -> Any:
        self._refuse("a GPUDevice")

    def native_buffer(self, buffer: int) -> Any:
        self._refuse("a GPUBuffer")

    def is_native_buffer(self, value: object) -> bool:
        return False

    def adopt_buffer(self, native: Any) -> tuple[int, int]:
        self._refuse("a GPUBuffer")

    def forget_buffers(self, buffers: Sequence[int]) -> None:
        self._refuse("a GPUBuffer")

    def _refuse(self, what: str) -> NoReturn:
        raise UnsupportedError(f"{what} is needed, and a recording device computes nothing")
