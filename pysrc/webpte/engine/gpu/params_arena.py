"""An arena for the uniform blocks of a delegate: a few buffers, with a mirror on the host.

Blocks are addressed by content: equal params, in one plan or in several, share a block. New blocks
are uploaded in a single write per page when their plan is made; an execution writes no block. A
block lives as long as a plan uses it, a page as long as it has blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from webpte.engine.gpu.device import UNIFORM_ALIGNMENT, Device, Resource

PAGE_BYTES = 64 * 1024  # 256 blocks of the usual size; also the largest uniform binding


def _room(block: bytes) -> int:
    """Return the bytes from the start of a block to the next."""
    return max(1, -(-len(block) // UNIFORM_ALIGNMENT)) * UNIFORM_ALIGNMENT


@dataclass(eq=False)
class _Page:
    buffer: int
    mirror: np.ndarray = field(default_factory=lambda: np.zeros(PAGE_BYTES, np.uint8))
    end: int = 0  # end of the part that was ever used
    blocks: int = 0
    stale: tuple[int, int] | None = None  # range of the mirror that is not uploaded yet

    def put(self, offset: int, block: bytes) -> None:
        self.mirror[offset : offset + len(block)] = np.frombuffer(block, np.uint8)
        low, high = self.stale or (offset, offset)
        self.stale = min(low, offset), max(high, offset + _room(block))
        self.blocks += 1


class ParamsArena:
    """An allocator of uniform blocks."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._pages: dict[int, _Page] = {}  # by buffer
        self._blocks: dict[bytes, Resource] = {}
        self._users: Counter[bytes] = Counter()
        self._free: dict[int, list[tuple[_Page, int]]] = {}  # by room: pages and offsets

    @property
    def allocated(self) -> dict[int, int]:
        """The bytes of each buffer, by its number."""
        return dict.fromkeys(self._pages, PAGE_BYTES)

    async def place(self, blocks: Sequence[bytes]) -> list[Resource]:
        """Place and upload the blocks that are new; returns the place of each block.

        Release each block as often as it was placed. If placing fails, no block is placed.
        """
        placed: list[bytes] = []
        try:
            for block in blocks:
                if block not in self._blocks:
                    self._blocks[block] = await self._append(block)
                self._users[block] += 1
                placed.append(block)
            self._flush()
        except BaseException:
            self.release(placed)
            raise
        return [self._blocks[block] for block in blocks]

    def release(self, blocks: Sequence[bytes]) -> None:
        for block in blocks:
            self._users[block] -= 1
            if not self._users[block]:
                del self._users[block]
                self._remove(block)

    def _remove(self, block: bytes) -> None:
        place = self._blocks.pop(block)
        page = self._pages[place.buffer]
        page.blocks -= 1
        self._free.setdefault(_room(block), []).append((page, place.offset))
        if not page.blocks:
            self._drop(page)

    def _drop(self, page: _Page) -> None:
        del self._pages[page.buffer]
        for room, places in self._free.items():
            self._free[room] = [place for place in places if place[0] is not page]
        self._device.destroy_buffers([page.buffer])

    async def _append(self, block: bytes) -> Resource:
        padded = -(-len(block) // 16) * 16  # WGSL rounds a uniform struct up to its alignment
        room = _room(block)
        free = self._free.get(room)
        if free:
            page, offset = free.pop()
        else:
            page = await self._page_with(room)
            offset, page.end = page.end, page.end + room
        page.put(offset, block)
        return Resource(page.buffer, offset, padded)

    async def _page_with(self, room: int) -> _Page:
        for page in self._pages.values():
            if page.end + room <= PAGE_BYTES:
                return page
        (buffer,) = await self._device.create_buffers([PAGE_BYTES], use="uniform")
        page = self._pages[buffer] = _Page(buffer)
        return page

    def _flush(self) -> None:
        for page in self._pages.values():
            if page.stale is not None:
                low, high = page.stale
                self._device.write(page.buffer, low, page.mirror[low:high])
                page.stale = None

    def free(self) -> None:
        """Destroy every page."""
        if self._pages:
            self._device.destroy_buffers(list(self._pages))
        self._pages, self._blocks, self._free = {}, {}, {}
        self._users.clear()
