"""The state of a delegate (caches, mutable buffers), and how a call that fails leaves it alone.

Most calls need nothing: all that can go wrong with them is checked before their one submission. A
call that can still fail once its kernels have written state (an index that only the GPU has seen,
an op on the host in the middle) works on state of which there is a copy, made on the GPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from webpte.errors import DeviceError
from webpte.gpu.device import Device, GpuCopy
from webpte.runtime.base.submissions import count_submission
from webpte.runtime.execute.memory import DelegateMemory


class StateGuard:
    """`values` are the tensors that keep their contents from call to call."""

    def __init__(self, device: Device, memory: DelegateMemory, values: Sequence[int]) -> None:
        self._device = device
        self._memory = memory
        self._values = values
        self._saves: list[GpuCopy] = []  # made on first use: most delegates need none
        self._owed = False  # whether state has still to be put back

    @property
    def has_state(self) -> bool:
        return bool(self._values)

    async def save(self) -> Callable[[], None]:
        """Returns what puts the state back as it is now. The copies are kept for the next time."""
        if not self._values:
            return lambda: None
        self.settle()
        if not self._saves:
            buffers = self._memory.buffers_of(self._values)
            copies = await self._memory.create(list(buffers.values()))
            self._saves = [
                GpuCopy(buffer, copy, nbytes)
                for (buffer, nbytes), copy in zip(buffers.items(), copies, strict=True)
            ]
        self._copy(self._saves)
        return self._restore

    @asynccontextmanager
    async def guarding(self, dry_run: bool = False) -> AsyncIterator[None]:
        """State is as before if anything is raised in here, and after a rehearsal."""
        restore = await self.save()
        try:
            yield
        except BaseException:
            restore()
            raise
        if dry_run:
            restore()

    def _restore(self) -> None:
        """Never raises: the error that led here matters more, and the next call tries again."""
        self._owed = True
        with contextlib.suppress(DeviceError):
            self.settle()

    def settle(self) -> None:
        """Put back what could not be put back before; no call may start without it."""
        if self._owed and not self._device.lost:  # with the device, state is lost anyway
            self._copy([GpuCopy(c.target, c.source, c.nbytes) for c in self._saves])
        self._owed = False

    def _copy(self, copies: Sequence[GpuCopy]) -> None:
        self._device.copy(copies)
        count_submission()
