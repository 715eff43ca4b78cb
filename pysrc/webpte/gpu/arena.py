"""All uniform blocks of a program in a few buffers, with a mirror on the host.

Blocks are addressed by content: equal params, in one plan or in several, are one block. New blocks
go up in one write per page, when the plan that needs them is made; an execution writes none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from webpte.gpu.device import UNIFORM_ALIGNMENT, Device, Resource

PAGE_BYTES = 64 * 1024  # 256 blocks of the usual size; also the largest uniform binding


@dataclass
class _Page:
    buffer: int
    mirror: np.ndarray = field(default_factory=lambda: np.zeros(PAGE_BYTES, np.uint8))
    used: int = 0
    flushed: int = 0


class ParamsArena:
    """Hands out uniform blocks. Blocks stay for the life of the program."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._pages: list[_Page] = []
        self._blocks: dict[bytes, Resource] = {}

    @property
    def allocated(self) -> dict[int, int]:
        """Buffers by number, with their bytes."""
        return {page.buffer: PAGE_BYTES for page in self._pages}

    async def place(self, blocks: list[bytes]) -> list[Resource]:
        """Where each block is, after placing and uploading those that are new."""
        for block in blocks:
            if block not in self._blocks:
                self._blocks[block] = await self._append(block)
        for page in self._pages:
            if page.used > page.flushed:
                self._device.write(page.buffer, page.flushed, page.mirror[page.flushed : page.used])
                page.flushed = page.used
        return [self._blocks[block] for block in blocks]

    async def _append(self, block: bytes) -> Resource:
        padded = -(-len(block) // 16) * 16  # WGSL rounds a uniform struct up to its alignment
        if not self._pages or self._pages[-1].used + padded > PAGE_BYTES:
            (buffer,) = await self._device.create_buffers([PAGE_BYTES], uniform=True)
            self._pages.append(_Page(buffer))
        page = self._pages[-1]
        offset = page.used
        page.mirror[offset : offset + len(block)] = np.frombuffer(block, np.uint8)
        page.used += -(-padded // UNIFORM_ALIGNMENT) * UNIFORM_ALIGNMENT
        return Resource(page.buffer, offset, padded)
