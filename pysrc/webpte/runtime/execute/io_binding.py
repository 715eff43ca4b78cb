"""What goes into a delegate's memory on the GPU, and what becomes of its outputs there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from webpte.gpu.device import Device, GpuCopy
from webpte.graph.graph import Graph
from webpte.runtime.base.gpu_tensor import DeviceTensor, GpuTensor, allocate
from webpte.runtime.execute.device_plan import Output
from webpte.runtime.execute.memory import DelegateMemory

OnGpu = DeviceTensor | GpuTensor
Input = np.ndarray | int | OnGpu
Result = np.ndarray | OnGpu


class OutputPlacement(Enum):
    """What becomes of an output."""

    READ = "comes back as an array"
    LEND = "stays where it is, until the delegate runs again"
    KEEP = "is copied to memory of its own on the GPU"


@dataclass(frozen=True)
class PendingOutputs:
    """The outputs of one execution. `kept` are those whose fate it is, in order."""

    outputs: Sequence[Output]
    fates: Sequence[OutputPlacement]
    kept: Sequence[GpuTensor]

    @classmethod
    async def prepare(
        cls, device: Device, outputs: Sequence[Output], fates: Sequence[OutputPlacement]
    ) -> PendingOutputs:
        """Allocate memory for what is to be kept."""
        if OutputPlacement.KEEP not in fates:
            return cls(outputs, fates, ())
        pairs = zip(outputs, fates, strict=True)
        wanted = [output.tensor for output, fate in pairs if fate is OutputPlacement.KEEP]
        kept = await allocate(device, [(t.dtype, t.stored, t.shape) for t in wanted])
        return cls(outputs, fates, kept)

    @property
    def read(self) -> bool:
        return OutputPlacement.READ in self.fates

    def copies(self, device: Device) -> list[GpuCopy]:
        """From the delegate's memory to what is kept."""
        pairs = zip(self.outputs, self.fates, strict=True)
        sources = [output.tensor for output, fate in pairs if fate is OutputPlacement.KEEP]
        return [
            GpuCopy(source.buffer, tensor.lend(device).buffer, source.copy_bytes)
            for source, tensor in zip(sources, self.kept, strict=True)
            if source.nbytes
        ]

    def results(self, data: bytes) -> list[Result]:
        """The outputs, given the bytes that came back."""
        kept = iter(self.kept)
        found: list[Result] = []
        for output, fate in zip(self.outputs, self.fates, strict=True):
            if fate is OutputPlacement.READ:
                found.append(output.unpack(data))
            else:
                found.append(output.tensor if fate is OutputPlacement.LEND else next(kept))
        return found

    def drop(self) -> None:
        """The execution failed: nothing is kept."""
        for tensor in self.kept:
            tensor.destroy()


def _place(value: OnGpu, device: Device) -> DeviceTensor:
    return value.lend(device) if isinstance(value, GpuTensor) else value


async def to_readable_inputs(
    inputs: Sequence[Input], graph: Graph, on_host: Collection[int], device: Device
) -> list[Input]:
    """Inputs as the graph can take them: some that are on the GPU have to be read back.

    These are the ones that are needed `on_host`, and those whose elements are stored in another way
    than the graph stores them.
    """
    given: list[Input] = []
    for value_id, value in zip(graph.inputs, inputs, strict=False):  # the count is checked later
        if isinstance(value, OnGpu):
            place, stored = _place(value, device), graph.tensor(value_id).dtype.storage
            if value_id in on_host or place.stored != stored:
                given.append(await place.read(device))
                continue
        given.append(value)
    return [*given, *inputs[len(given) :]]


def input_copies(
    inputs: Sequence[Input], graph: Graph, memory: DelegateMemory, device: Device
) -> list[GpuCopy]:
    """How inputs that are on the GPU get to where the graph reads them."""
    copies = []
    for value_id, value in zip(graph.inputs, inputs, strict=True):
        if isinstance(value, OnGpu) and memory.holds(value_id):
            place, target = _place(value, device), memory.buffer_of(value_id)
            if place.nbytes and place.buffer != target:
                copies.append(GpuCopy(place.buffer, target, place.copy_bytes))
    return copies


def host_arrays(inputs: Sequence[Input], graph: Graph) -> dict[int, np.ndarray]:
    """The inputs that are arrays, by value id."""
    by_id = zip(graph.inputs, inputs, strict=True)
    return {value_id: value for value_id, value in by_id if isinstance(value, np.ndarray)}
