"""Vectors of passages on the encoder's device, and the exact search for the nearest.

`GpuVectors` keeps them in GPU memory, in blocks: a search is one submission of products and a
top-k over all blocks. `HostVectors` does the same in NumPy, for programs on NumPy.

Appended rows are found once they are committed. Calls must not overlap, which `Index` ensures.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from webpte.engine.call.gpu_tensor import DeviceTensor, GpuTensor, allocate, lend
from webpte.engine.dtypes import DTYPES
from webpte.engine.files.download import Progress
from webpte.engine.files.source import Region
from webpte.engine.gpu.device import Device, GpuCopy, Transfer
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.io import Input
from webpte.engine.run.request import RunRequest
from webpte.tasks.retrieval.search_graph import FIRST_BLOCK, search_graph

Array = np.ndarray
Span = tuple[int, int]  # rows: the first, and the row after the last

FLOAT = DTYPES["float32"]
# Rows of a block: a new block is as large as all blocks before it, within these bounds.
FEWEST_ROWS, MOST_ROWS = 1024, 1 << 15


class Vectors(Protocol):
    """Rows of float32 with the same width, and the search in them."""

    @property
    def count(self) -> int:
        """The number of committed rows."""
        ...

    @property
    def lost(self) -> bool:
        """Whether the vectors are gone with their device."""
        ...

    async def append(self, rows: Array) -> None:
        """Write rows after the last rows; `commit` or `discard` them."""

    def commit(self) -> None:
        """Let searches find the appended rows."""

    def discard(self) -> None:
        """Forget appended rows that were not committed."""

    async def keep(self, spans: Sequence[Span]) -> None:
        """Keep only these rows, which are in order and do not overlap, and commit them.

        Appended rows count, too. If the call fails, nothing changes.
        """

    async def fill(self, region: Region, count: int, progress: Progress | None = None) -> None:
        """Replace all rows by a file's rows."""

    async def search(self, query: Array, count: int) -> tuple[Array, Array]:
        """Return the largest products with a vector (width,), and their rows."""
        ...

    def parts(self) -> AsyncIterator[Array]:
        """Yield all committed rows, some at a time."""
        ...

    def close(self) -> None:
        """Free the memory."""


class HostVectors:
    """Vectors in an array, which grows as rows are appended."""

    lost = False

    def __init__(self, width: int) -> None:
        self._rows = np.zeros((0, width), np.float32)
        self._written = 0
        self.count = 0

    async def append(self, rows: Array) -> None:
        needed = self._written + len(rows)
        if needed > len(self._rows):
            room = np.zeros((max(needed, 2 * len(self._rows)), self._rows.shape[1]), np.float32)
            room[: self._written] = self._rows[: self._written]
            self._rows = room
        self._rows[self._written : needed] = rows
        self._written = needed

    def commit(self) -> None:
        self.count = self._written

    def discard(self) -> None:
        self._written = self.count

    async def keep(self, spans: Sequence[Span]) -> None:
        kept = [self._rows[first:end] for first, end in spans]
        self._rows = np.concatenate([self._rows[:0], *kept])
        self._written = self.count = len(self._rows)

    async def fill(self, region: Region, count: int, progress: Progress | None = None) -> None:
        data = await region.view(0, region.size)
        self._rows = (
            np.frombuffer(data, "<f4").reshape(count, self._rows.shape[1]).astype(np.float32)
        )
        self._written = self.count = count

    async def search(self, query: Array, count: int) -> tuple[Array, Array]:
        scores = self._rows[: self.count] @ query.astype(np.float32)
        scores = np.where(np.isnan(scores), np.float32(np.inf), scores)  # NaN first, as on a GPU
        rows = np.arange(self.count)
        if count < self.count:
            least = np.partition(scores, self.count - count)[self.count - count]
            rows = np.flatnonzero(scores >= least)
        order = np.argsort(-scores[rows], kind="stable")[:count]
        return scores[rows[order]], rows[order]

    async def parts(self) -> AsyncIterator[Array]:
        for first in range(0, self.count, MOST_ROWS):
            yield self._rows[first : min(first + MOST_ROWS, self.count)]

    def close(self) -> None:
        self._rows = self._rows[:0]
        self._written = self.count = 0


@dataclass
class _VectorBlock:
    """Rows in a buffer: the number of written rows, and of committed rows."""

    memory: GpuTensor
    written: int = 0
    rows: int = 0

    @property
    def capacity(self) -> int:
        return self.memory.shape[0]


class GpuVectors:
    """Vectors in the memory of a GPU, without a copy on the host."""

    def __init__(self, device: Device, width: int) -> None:
        self._device = device
        self._width = width
        self._row_bytes = width * FLOAT.itemsize
        self._blocks: list[_VectorBlock] = []
        self._search: tuple[list[GpuTensor], GpuDelegate] | None = None  # and its blocks
        self._most = max(1, min(MOST_ROWS, device.info.binding_bytes // self._row_bytes))

    @property
    def count(self) -> int:
        return sum(block.rows for block in self._blocks)

    @property
    def lost(self) -> bool:
        return self._device.lost

    @property
    def nbytes(self) -> int:
        """Bytes of GPU memory that the vectors take."""
        return sum(block.memory.nbytes for block in self._blocks)

    async def _add_block(self, rows: int) -> _VectorBlock:
        """Add a block for a number of rows, or for as many as fit into a buffer."""
        total = sum(block.capacity for block in self._blocks)
        capacity = min(self._most, max(FEWEST_ROWS, total, rows))
        self._blocks.append(await self._new_block(capacity))
        return self._blocks[-1]

    async def _new_block(self, capacity: int) -> _VectorBlock:
        (memory,) = await allocate(self._device, [(FLOAT, FLOAT, (capacity, self._width))])
        return _VectorBlock(memory)

    def _buffer(self, block: _VectorBlock) -> int:
        return lend(block.memory, self._device).buffer

    async def append(self, rows: Array) -> None:
        rest = np.ascontiguousarray(rows, np.float32)
        while len(rest):
            block = self._blocks[-1] if self._blocks else None
            if block is None or block.written == block.capacity:
                block = await self._add_block(len(rest))
            some = rest[: block.capacity - block.written]
            data = some.reshape(-1).view(np.uint8)
            self._device.write(self._buffer(block), block.written * self._row_bytes, data)
            block.written += len(some)
            rest = rest[len(some) :]

    def commit(self) -> None:
        for block in self._blocks:
            block.rows = block.written

    def discard(self) -> None:
        for block in self._blocks:
            block.written = block.rows
        self._drop_empty()

    def _drop_empty(self) -> None:
        for block in self._blocks:
            if not block.written:
                block.memory.destroy()
        self._blocks = [block for block in self._blocks if block.written]

    async def keep(self, spans: Sequence[Span]) -> None:
        """Keep rows: copy a block's kept rows to a new block, on the GPU."""
        kept: list[_VectorBlock] = []
        made: list[_VectorBlock] = []
        first = 0
        try:
            for block in self._blocks:
                inside = _inside(spans, first, first + block.written)
                count = sum(end - start for start, end in inside)
                first += block.written
                if count == block.written:
                    kept.append(block)
                elif count:
                    made.append(await self._new_block(block.capacity))
                    kept.append(made[-1])
                    self._copy(block, made[-1], inside)
        except BaseException:
            for block in made:
                block.memory.destroy()
            raise
        for block in self._blocks:
            if all(block is not one for one in kept):
                block.memory.destroy()
        self._blocks = kept
        self.commit()

    def _copy(self, source: _VectorBlock, target: _VectorBlock, spans: Sequence[Span]) -> None:
        size, buffers = self._row_bytes, (self._buffer(source), self._buffer(target))
        copies = []
        for first, end in spans:
            count = end - first
            copies.append(GpuCopy(*buffers, count * size, first * size, target.written * size))
            target.written += count
        self._device.copy(copies)

    async def fill(self, region: Region, count: int, progress: Progress | None = None) -> None:
        """Replace all rows; they go from the file to the GPU without passing through Python."""
        old, self._blocks = self._blocks, []
        try:
            transfers, first = [], 0
            while first < count:
                block = await self._add_block(count - first)
                rows = min(block.capacity, count - first)
                part = region.part(first * self._row_bytes, rows * self._row_bytes)
                transfers.append(Transfer(part, self._buffer(block), None))
                block.written, first = rows, first + rows
            await self._device.transfer(transfers, progress)
        except BaseException:
            for block in self._blocks:
                block.memory.destroy()
            self._blocks = old
            raise
        for block in old:
            block.memory.destroy()
        self.commit()

    async def search(self, query: Array, count: int) -> tuple[Array, Array]:
        blocks = [block for block in self._blocks if block.rows]
        delegate = await self._delegate(blocks)
        given: list[Input] = [query.reshape(1, -1).astype(np.float32), count]
        for block in blocks:
            shape = (block.rows, self._width)
            given.append(DeviceTensor(self._buffer(block), FLOAT, FLOAT, shape))
        scores, rows = await delegate.run(RunRequest(given))
        return scores.reshape(-1), rows.reshape(-1)

    async def _delegate(self, blocks: Sequence[_VectorBlock]) -> GpuDelegate:
        """Return the delegate that searches these blocks; it is rebuilt when blocks change."""
        memory = [block.memory for block in blocks]
        if self._search is not None and self._search[0] == memory:
            return self._search[1]
        self._end_search()
        graph = search_graph(self._width, [block.capacity for block in blocks])
        inputs = graph.inputs[FIRST_BLOCK:]
        pairs = zip(inputs, blocks, strict=True)
        borrowed = {value_id: self._buffer(block) for value_id, block in pairs}
        made = await GpuDelegate.create(graph, self._device, ShaderLibrary(), borrowed=borrowed)
        self._search = memory, made
        return made

    def _end_search(self) -> None:
        if self._search is not None:
            self._search[1].close()
        self._search = None

    async def parts(self) -> AsyncIterator[Array]:
        for block in self._blocks:
            if block.rows:
                data = await self._device.read(self._buffer(block), block.rows * self._row_bytes)
                yield np.frombuffer(data, np.float32).reshape(block.rows, self._width)

    def close(self) -> None:
        self._end_search()
        for block in self._blocks:
            block.memory.destroy()
        self._blocks = []


def _inside(spans: Sequence[Span], first: int, end: int) -> list[Span]:
    """Return the parts of spans between two rows, counted from the first of the two."""
    cut = [(max(start, first) - first, min(stop, end) - first) for start, stop in spans]
    return [(start, stop) for start, stop in cut if start < stop]
