"""Inputs on the GPU on their way into a delegate's memory, and outputs on their way out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from webpte.engine.call.gpu_tensor import DeviceTensor, GpuTensor, allocate, lend
from webpte.engine.gpu.device import Device, GpuCopy
from webpte.engine.graph.graph import Graph
from webpte.engine.run.memory import DelegateMemory
from webpte.engine.run.payload import Output
from webpte.engine.run.request import Input, OnGpu, OutputPlacement


@dataclass(frozen=True)
class OwnedOutputs:
    """GPU memory of their own for the outputs that are placed as OWNED, in order."""

    sources: Sequence[DeviceTensor]
    tensors: Sequence[GpuTensor]

    @classmethod
    async def allocate(
        cls, device: Device, outputs: Sequence[Output], placements: Sequence[OutputPlacement]
    ) -> OwnedOutputs:
        """Allocate a tensor for each output that is to be OWNED."""
        pairs = zip(outputs, placements, strict=True)
        sources = [output.tensor for output, place in pairs if place is OutputPlacement.OWNED]
        tensors = await allocate(device, [(t.dtype, t.stored, t.shape) for t in sources])
        return cls(sources, tensors)

    def copies(self, device: Device) -> list[GpuCopy]:
        """List the copies from the delegate's memory."""
        return [
            GpuCopy(source.buffer, lend(tensor, device).buffer, source.copy_bytes)
            for source, tensor in zip(self.sources, self.tensors, strict=True)
            if source.nbytes
        ]

    def destroy(self) -> None:
        """Free the tensors of a run that failed."""
        for tensor in self.tensors:
            tensor.destroy()


NONE_OWNED = OwnedOutputs((), ())


def _on_device(value: OnGpu, device: Device) -> DeviceTensor:
    return lend(value, device) if isinstance(value, GpuTensor) else value


async def to_readable_inputs(
    inputs: Sequence[Input], graph: Graph, on_host: Collection[int], device: Device
) -> list[Input]:
    """Read back the inputs on the GPU that the graph cannot take from there.

    These are the ones that are needed `on_host`, and those whose elements are stored in another way
    than the graph stores them.
    """
    given: list[Input] = []
    for value_id, value in zip(graph.inputs, inputs, strict=False):  # the count is checked later
        if isinstance(value, OnGpu):
            tensor, stored = _on_device(value, device), graph.tensor(value_id).dtype.storage
            if value_id in on_host or tensor.stored != stored:
                given.append(await tensor.read(device))
                continue
        given.append(value)
    return [*given, *inputs[len(given) :]]


def input_copies(
    inputs: Sequence[Input], graph: Graph, memory: DelegateMemory, device: Device
) -> list[GpuCopy]:
    """List the copies of inputs on the GPU to where the graph reads them."""
    copies = []
    for value_id, value in zip(graph.inputs, inputs, strict=True):
        if isinstance(value, OnGpu) and memory.holds(value_id):
            tensor, target = _on_device(value, device), memory.buffer_of(value_id)
            if tensor.nbytes and tensor.buffer != target:
                copies.append(GpuCopy(tensor.buffer, target, tensor.copy_bytes))
    return copies


def host_arrays(inputs: Sequence[Input], graph: Graph) -> dict[int, np.ndarray]:
    """Map value ids to the inputs that are arrays."""
    by_id = zip(graph.inputs, inputs, strict=True)
    return {value_id: value for value_id, value in by_id if isinstance(value, np.ndarray)}
