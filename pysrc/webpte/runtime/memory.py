"""Everything one delegate has on the device, and what a binding of a record is there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from webpte.gpu.arena import ParamsArena
from webpte.gpu.device import UNIFORM_ALIGNMENT, Device, Resource
from webpte.ops.records import Binding, Faults, Scratch, SymIntUniform
from webpte.storage import StoragePlan, aligned

SYMINT_BYTES = 16
FAULT_BYTES = 16


class DelegateMemory:
    """Buffers by slot, live scalars, params and scratch. `free` gives all of it back."""

    def __init__(self, device: Device, storage: StoragePlan, symints: Sequence[int]) -> None:
        self._device = device
        self._storage = storage
        self._symint_index = {value_id: index for index, value_id in enumerate(symints)}
        self._buffers: dict[int, int] = {}  # id to bytes
        self._slots: list[int] = []
        self._scratch: dict[tuple[str, int], int] = {}
        self._absent: int | None = None
        self.symint_buffer: int | None = None
        self.fault_buffer: int | None = None
        self.arena = ParamsArena(device)

    async def allocate(self) -> None:
        """All that every shape needs: one buffer per slot, one for the SymInts."""
        self._slots = await self._create([slot.nbytes for slot in self._storage.slots])
        if self._symint_index:
            nbytes = len(self._symint_index) * UNIFORM_ALIGNMENT
            (self.symint_buffer,) = await self._create([nbytes], uniform=True)

    async def _create(self, sizes: Sequence[int], uniform: bool = False) -> list[int]:
        made = await self._device.create_buffers(sizes, uniform) if sizes else []
        self._buffers |= dict(zip(made, sizes, strict=True))
        return made

    def holds(self, value_id: int) -> bool:
        """Whether a tensor has memory; one that nothing reads or returns has none."""
        return value_id in self._storage.slot_of

    def buffer_of(self, value_id: int) -> int:
        return self._slots[self._storage.slot_of[value_id]]

    async def resource(self, binding: Binding) -> Resource:
        """What to bind; scratch memory and the word for faults are allocated on first use."""
        if isinstance(binding, int):
            slot = self._storage.slots[self._storage.slot_of[binding]]
            return Resource(self._slots[slot.index], 0, slot.nbytes)
        if isinstance(binding, SymIntUniform):
            assert self.symint_buffer is not None
            offset = self._symint_index[binding.value_id] * UNIFORM_ALIGNMENT
            return Resource(self.symint_buffer, offset, SYMINT_BYTES)
        if isinstance(binding, bytes):
            (block,) = await self.arena.place([binding])
            return block
        if isinstance(binding, Scratch):
            key = (binding.key, aligned(binding.nbytes))
            if key not in self._scratch:
                (self._scratch[key],) = await self._create([key[1]])
            return Resource(self._scratch[key], 0, key[1])
        if isinstance(binding, Faults):
            if self.fault_buffer is None:
                (self.fault_buffer,) = await self._create([FAULT_BYTES])
            return Resource(self.fault_buffer, 0, FAULT_BYTES)
        if self._absent is None:
            (self._absent,) = await self._create([aligned(0)])
        return Resource(self._absent, 0, aligned(0))

    def clear_faults(self) -> None:
        """An error was raised for what is in the word; the next run starts without it."""
        if self.fault_buffer in self._buffers:
            self._device.write(self.fault_buffer, 0, np.zeros(FAULT_BYTES, np.uint8))

    @property
    def allocated(self) -> dict[int, int]:
        """Buffers by number, with their bytes."""
        return self._buffers | self.arena.allocated

    def free(self) -> None:
        """Destroy every buffer; a second call does nothing."""
        if self.allocated:
            self._device.destroy_buffers(list(self.allocated))
        self._buffers, self.arena = {}, ParamsArena(self._device)
