"""The steps from a picture to a model's input, on a GPU: a small graph per size of pictures."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from webpte.engine.call.gpu_tensor import GpuTensor
from webpte.engine.dtypes import DTYPES
from webpte.engine.format.vulkan import IntListValue, IntValue
from webpte.engine.gpu.device import Device
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.graph.graph import Call, Graph, Tensor, Value
from webpte.engine.ops.pictures.picture_planes import OUTSIDE, PLANES
from webpte.engine.ops.pictures.scale_pixels import CHANNELS
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.io import OutputPlacement
from webpte.engine.run.request import RunRequest
from webpte.engine.shapes import Dims, numel
from webpte.errors import ClosedError
from webpte.tasks.vision.scaling.steps import ORDER, PictureSteps

Array = np.ndarray
VIEW = "aten.view_copy.default"
# Number of sizes with graphs; only the last graph is kept above this memory.
_KEPT, _KEPT_BYTES = 2, 32 << 20


def picture_graph(steps: PictureSteps, dtype: str) -> Graph:
    """Build the graph of the steps.

    Inputs: the picture, uint8 [height, width, 4]; the table of colours; then starts and weights of
    each pass. Outputs: the parts, each [3, rows, columns], or squares of patches.
    """
    values: list[Value] = []
    calls: list[Call] = []

    def add(value: Value) -> int:
        values.append(value)
        return len(values) - 1

    def tensor(kind: str, dims: Dims) -> int:
        return add(Tensor(len(values), DTYPES[kind], dims, None, None))

    def call(name: str, *args: int) -> int:
        calls.append(Call(len(calls), name, args))
        return args[-1]

    picture = tensor("uint8", (*steps.given, CHANNELS))
    table = tensor(dtype, (PLANES, OUTSIDE + 1))
    inputs, stages = [picture, table], {0: picture}
    for one in steps.passes():
        # A stage is the result of the last pass before it: a resize to the same size has no pass.
        picture = _latest(stages, one.stage + 1)
        filtered = tensor("int32", one.starts.shape), tensor("int32", one.weights.shape)
        inputs += filtered
        made = tensor("uint8", (*one.size, CHANNELS))
        dim = add(IntValue(one.dim))
        stages[one.stage + 1] = call("webpte.scale_pixels.default", picture, *filtered, dim, made)
    outputs = []
    for part in steps.parts:
        numbers = [add(IntValue(n)) for n in (part.top, part.left, *steps.part)]
        source, out = _latest(stages, part.stage), tensor(dtype, (PLANES, *steps.part))
        made = call("webpte.picture_planes.default", source, table, *numbers, out)
        if steps.patches is not None:
            cut, order = steps.cut, add(IntListValue(ORDER))
            made = call(VIEW, made, add(IntListValue(cut)), tensor(dtype, cut))
            moved = tensor(dtype, tuple(cut[dim] for dim in ORDER))
            made = call("aten.permute_copy.default", made, order, moved)
            made = call(VIEW, made, add(IntListValue(steps.shape)), tensor(dtype, steps.shape))
        outputs.append(made)
    return Graph(tuple(values), tuple(calls), tuple(inputs), tuple(outputs))


def _latest(stages: dict[int, int], stage: int) -> int:
    return stages[max(known for known in stages if known <= stage)]


def fits(steps: PictureSteps, info: DeviceInfo) -> bool:
    """Return whether a device's buffers are large enough for all intermediate pictures."""
    sizes = [steps.given, *(one.size for one in steps.passes())]
    most = max(numel(size) for size in sizes) * CHANNELS
    return max(most, 4 * numel(steps.shape)) <= info.binding_bytes


class GpuScaler:
    """Prepares pictures on a device; it keeps the graphs for the last sizes of pictures.

    Calls may overlap. `close` frees the graphs' memory once the calls under way have ended.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._delegates: dict[tuple[PictureSteps, str], GpuDelegate] = {}
        self._building = asyncio.Lock()
        self._closed = False

    @property
    def nbytes(self) -> int:
        """Bytes of the graphs' GPU memory."""
        return sum(sum(one.allocated.values()) for one in self._delegates.values())

    async def run(self, steps: PictureSteps, pixels: Array, dtype: str) -> list[GpuTensor]:
        """Return the parts of a picture (height, width, 3), each (3, rows, columns)."""
        steps.check(pixels)
        words = np.zeros((*steps.given, CHANNELS), np.uint8)
        words[:, :, :PLANES] = pixels
        given: list[Any] = [words, steps.table.astype(DTYPES[dtype].numpy)]
        for one in steps.passes():
            given += one.starts.astype(np.int32), one.weights
        delegate = await self._delegate(steps, dtype)
        return await delegate.run(RunRequest(given, OutputPlacement.OWNED))

    async def _delegate(self, steps: PictureSteps, dtype: str) -> GpuDelegate:
        """Return the graph for these steps; a new graph replaces the least recently used."""
        async with self._building:
            made = self._delegates.pop((steps, dtype), None)
            if made is None:
                while self._delegates and (
                    len(self._delegates) >= _KEPT or self.nbytes > _KEPT_BYTES
                ):
                    self._delegates.pop(next(iter(self._delegates))).close()
                graph = picture_graph(steps, dtype)
                made = await GpuDelegate.create(graph, self._device, ShaderLibrary())
            if self._closed:
                made.close()
                raise ClosedError("the program was closed while a picture was being prepared")
            self._delegates[steps, dtype] = made
            return made

    def close(self) -> None:
        """Free all memory, and refuse further pictures."""
        self._closed = True
        kept, self._delegates = self._delegates, {}
        for delegate in kept.values():
            delegate.close()
