"""Restores the state of a delegate (caches, mutable buffers) after calls that fail.

Most calls need no copies: every possible error is found before their only submission. A call that
can still fail once its kernels have written state (an index that only the GPU has seen, an op on
the host in the middle) writes to state of which a copy was made on the GPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from webpte.engine.call.call import count_submission
from webpte.engine.gpu.device import Device, GpuCopy
from webpte.engine.run.memory import DelegateMemory
from webpte.errors import DeviceError


class StateGuard:
    """A delegate's copies of the tensors whose contents last from call to call: `values`."""

    def __init__(self, device: Device, memory: DelegateMemory, values: Sequence[int]) -> None:
        self._device = device
        self._memory = memory
        self._values = values
        # buffers for the copies, made on first use because most delegates need no copy
        self._saves: list[GpuCopy] = []
        self.restore_pending = False  # whether a restore failed and has to be repeated

    @property
    def has_state(self) -> bool:
        return bool(self._values)

    async def save(self) -> Callable[[], None]:
        """Copy the state to buffers that are reused; return a function that restores the state."""
        if not self._values:
            return lambda: None
        self.apply_pending_restore()
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
        """Restore state if the block raises an error, and after a dry run."""
        restore = await self.save()
        try:
            yield
        except BaseException:
            restore()
            raise
        if dry_run:
            restore()

    def _restore(self) -> None:
        """Restore the state; if the restore fails, the next run tries again.

        The function never raises: the error that made it necessary matters more.
        """
        self.restore_pending = True
        with contextlib.suppress(DeviceError):
            self.apply_pending_restore()

    def apply_pending_restore(self) -> None:
        """Repeat a restore that failed before; no run may start without it."""
        if self.restore_pending:
            self._copy([GpuCopy(c.target, c.source, c.nbytes) for c in self._saves])
        self.restore_pending = False

    def _copy(self, copies: Sequence[GpuCopy]) -> None:
        self._device.copy(copies)
        count_submission()
