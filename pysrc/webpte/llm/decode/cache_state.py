"""The contents of a delegate's KV caches: the first positions, read and written by the host.

Arrays have the cache's own elements: floats, or words if it is packed. On every device the arrays
are the same, in the order of the caches in the file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from webpte.engine.call.gpu_tensor import WORD_BYTES, DeviceTensor
from webpte.engine.dtypes import narrow_to_storage
from webpte.engine.graph.graph import Graph, Tensor
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.numpy_delegate import NumpyDelegate
from webpte.engine.shapes import Dims
from webpte.errors import UnsupportedError
from webpte.llm.decode.rollback_safety import unsafe_state

StatefulDelegate = GpuDelegate | NumpyDelegate


@dataclass(frozen=True)
class CacheLayout:
    """A cache's positions, dims of a position, and the dtype and packing of its elements."""

    positions: int
    dims: Dims
    dtype: str
    packing: str | None


def caches_of(graph: Graph) -> list[Tensor]:
    """Return the caches of a graph; raise UnsupportedError if the graph has other state."""
    reason = unsafe_state(graph)
    if reason is not None:
        raise UnsupportedError(f"the state of the program is not known to be KV caches: {reason}")
    caches = [graph.tensor(i) for i in sorted(Dataflow.of(graph).state)]
    for tensor in caches:
        if len(tensor.dims) != 4 or tensor.dims[0] != 1:
            raise UnsupportedError(
                f"the KV cache {list(tensor.dims)} (value {tensor.id}) holds more than one "
                "conversation"
            )
    return caches


def layout_of(graph: Graph) -> list[CacheLayout]:
    """Return the layout of each cache of a graph."""
    return [
        CacheLayout(tensor.dims[1], tensor.dims[2:], tensor.dtype.name, tensor.dtype.packing)
        for tensor in caches_of(graph)
    ]


async def read_caches(delegate: StatefulDelegate, count: int) -> list[np.ndarray]:
    """Read the first `count` positions of each cache (count, ..)."""
    if isinstance(delegate, NumpyDelegate):
        caches = caches_of(delegate.graph)
        return [delegate.state_of(tensor.id)[0, :count].copy() for tensor in caches]
    with delegate.lifetime.lease():
        async with delegate.turn():
            reads = [
                DeviceTensor(
                    delegate.memory.buffer_of(tensor.id),
                    tensor.dtype,
                    tensor.dtype.storage,
                    (count, *tensor.dims[2:]),
                ).read(delegate.device)
                for tensor in caches_of(delegate.graph)
            ]
            return await asyncio.gather(*reads)


async def write_caches(delegate: StatefulDelegate, arrays: Sequence[np.ndarray]) -> None:
    """Write the first positions of each cache: arrays (count, ..) as returned by `read_caches`."""
    caches = caches_of(delegate.graph)
    pairs = list(zip(caches, arrays, strict=True))
    if isinstance(delegate, NumpyDelegate):
        changed = {}
        for tensor, array in pairs:
            changed[tensor.id] = delegate.state_of(tensor.id).copy()
            changed[tensor.id][0, : len(array)] = array
        delegate.set_state(changed)
        return
    with delegate.lifetime.lease():
        async with delegate.turn():
            for tensor, array in pairs:
                stored = narrow_to_storage(array, tensor.dtype, f"the KV cache {tensor.id}")
                data = np.ascontiguousarray(stored).reshape(-1).view(np.uint8)
                data = np.pad(data, (0, -len(data) % WORD_BYTES))
                delegate.device.write(delegate.memory.buffer_of(tensor.id), 0, data)
