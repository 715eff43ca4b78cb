"""Memory of a delegate on the device, and the resources for bindings of records."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from webpte.engine.gpu.device import UNIFORM_ALIGNMENT, BufferUse, Device, Resource
from webpte.engine.gpu.params_arena import ParamsArena
from webpte.engine.ops.core.records import Binding, IndexFlag, Scratch, SymIntUniform
from webpte.engine.plan.memory_plan import MemoryPlan, Slot, aligned
from webpte.engine.run.shared_weights import ConstantKey, ConstantStore

SYMINT_BYTES = 16
INDEX_FLAG_BYTES = 16

ScratchKey = tuple[str, int]


class DelegateMemory:
    """The buffers of a delegate: slots, live scalars, params and scratch. `free` frees them all.

    `stored` are the slots of constants, `shared` the slots of constants that are or will be in
    `constants`. `borrowed` maps tensors to buffers of other owners. No buffer is larger than
    `most_bytes`.
    """

    def __init__(
        self,
        device: Device,
        storage: MemoryPlan,
        symints: Sequence[int],
        stored: Collection[int],
        shared: Mapping[int, ConstantKey],
        constants: ConstantStore,
        borrowed: Mapping[int, int] | None = None,
        most_bytes: int = sys.maxsize,
    ) -> None:
        self._device = device
        self.most_bytes = most_bytes
        self._borrowed = borrowed or {}
        self._shared = dict(shared)
        self._constants = constants
        self._stored = stored
        # shared buffers, by key; some were made by other delegates
        self._held: dict[ConstantKey, int] = {}
        self._fresh: set[int] = set()
        self._storage = storage
        self._symint_index = {value_id: index for index, value_id in enumerate(symints)}
        self._buffers: dict[int, int] = {}  # size in bytes, by buffer
        self._slots: list[int] = []
        self._scratch: dict[ScratchKey, int] = {}
        self._scratch_users: Counter[ScratchKey] = Counter()
        self._absent: int | None = None
        self.symint_buffer: int | None = None
        self.index_flag_buffer: int | None = None
        self.arena = ParamsArena(device)

    async def allocate(self) -> None:
        """Allocate the memory for all shapes: a buffer per slot, and a buffer for the SymInts."""
        slots = {self._storage.slot_of[i]: buffer for i, buffer in self._borrowed.items()}
        for index, given in self._shared.items():
            key = self._shared[index] = await self._constants.same_bytes(given)
            buffer = self._constants.take(key)
            if buffer is not None:
                slots[index] = self._held[key] = buffer
        missing = [slot for slot in self._storage.slots if slot.index not in slots]
        for use, chosen in self._by_use(missing).items():
            made = await self.create([slot.nbytes for slot in chosen], use)
            for slot, buffer in zip(chosen, made, strict=True):
                slots[slot.index] = buffer
        self._fresh = {slot.index for slot in missing}
        self._slots = [slots[slot.index] for slot in self._storage.slots]
        if self._symint_index:
            nbytes = len(self._symint_index) * UNIFORM_ALIGNMENT
            (self.symint_buffer,) = await self.create([nbytes], use="uniform")

    def _by_use(self, slots: Sequence[Slot]) -> dict[BufferUse, list[Slot]]:
        """Return the slots of constants, and the others."""
        constants = [slot for slot in slots if slot.index in self._stored]
        others = [slot for slot in slots if slot.index not in self._stored]
        return {"constant": constants, "storage": others}

    def share_constants(self) -> None:
        """Offer the constants, which are all uploaded, to other delegates."""
        for index in self._shared.keys() & self._fresh:
            key, buffer = self._shared[index], self._slots[index]
            if self._constants.add(key, buffer):
                self._held[key] = buffer
                del self._buffers[buffer]

    async def create(self, sizes: Sequence[int], use: BufferUse = "storage") -> list[int]:
        """Create buffers of this delegate; `free` destroys them."""
        made = await self._device.create_buffers(sizes, use) if sizes else []
        self._buffers |= dict(zip(made, sizes, strict=True))
        return made

    def holds(self, value_id: int) -> bool:
        """Return whether a tensor has memory: something reads or returns the tensor."""
        return value_id in self._storage.slot_of

    def needs_upload(self, value_id: int) -> bool:
        """Return whether a constant still has to be copied to its newly allocated memory."""
        return self._storage.slot_of[value_id] in self._fresh

    def buffer_of(self, value_id: int) -> int:
        return self._slots[self._storage.slot_of[value_id]]

    def buffers_of(self, value_ids: Sequence[int]) -> dict[int, int]:
        """Return the distinct buffers of some values, with their sizes in bytes."""
        slots = [self._storage.slots[self._storage.slot_of[i]] for i in value_ids if self.holds(i)]
        return {self._slots[slot.index]: slot.nbytes for slot in slots}

    def place(self, binding: int | SymIntUniform) -> Resource:
        """Return the resource of a tensor or a SymInt, valid from `allocate` to `free`."""
        if isinstance(binding, int):
            slot = self._storage.slots[self._storage.slot_of[binding]]
            return Resource(self._slots[slot.index], 0, slot.nbytes)
        assert self.symint_buffer is not None
        offset = self._symint_index[binding.value_id] * UNIFORM_ALIGNMENT
        return Resource(self.symint_buffer, offset, SYMINT_BYTES)

    async def faults(self) -> Resource:
        """Return the word for faults, allocated on first use."""
        if self.index_flag_buffer is None:
            (self.index_flag_buffer,) = await self.create([INDEX_FLAG_BYTES])
        return self.index_flag_word

    @property
    def index_flag_word(self) -> Resource:
        """The word for faults; `faults` must have allocated it."""
        assert self.index_flag_buffer is not None
        return Resource(self.index_flag_buffer, 0, INDEX_FLAG_BYTES)

    async def absent(self) -> Resource:
        """Return the resource to bind for an absent tensor, allocated on first use."""
        if self._absent is None:
            (self._absent,) = await self.create([aligned(0)])
        return Resource(self._absent, 0, aligned(0))

    async def take_scratch(self, key: ScratchKey) -> Resource:
        """Take scratch memory shared by the plans with this key; release it once per call."""
        if key not in self._scratch:
            (self._scratch[key],) = await self.create([key[1]])
        self._scratch_users[key] += 1
        return Resource(self._scratch[key], 0, key[1])

    def scratch_for(self, wanted: ScratchKey, taken: Collection[ScratchKey]) -> ScratchKey:
        """Return the smallest scratch for a plan that is there already, or `wanted`, to be made.

        Plans run one after the other, so that a plan can use a larger plan's. A plan that has
        `taken` a scratch for another size may need both at once.
        """
        there = [key for key in self._scratch if key[0] == wanted[0] and key[1] >= wanted[1]]
        return min((key for key in there if key not in taken), default=wanted)

    def release_scratch(self, key: ScratchKey) -> None:
        self._scratch_users[key] -= 1
        if not self._scratch_users[key] and key in self._scratch:
            buffer = self._scratch.pop(key)
            del self._buffers[buffer], self._scratch_users[key]
            self._device.destroy_buffers([buffer])

    def purposes(self) -> dict[int, str]:
        """Return the purpose of each buffer that holds no tensor, without the copies of state."""
        small = (self.symint_buffer, self.index_flag_buffer, self._absent)
        params = [*self.arena.allocated, *(buffer for buffer in small if buffer is not None)]
        return dict.fromkeys(params, "params") | dict.fromkeys(self._scratch.values(), "scratch")

    @property
    def allocated(self) -> dict[int, int]:
        """Size in bytes of each GPU buffer, by number."""
        held = {buffer: key.nbytes for key, buffer in self._held.items()}
        return self._buffers | held | self.arena.allocated

    def free(self) -> None:
        """Destroy every buffer that no other delegate uses; a second call does nothing."""
        released = [self._constants.release(key) for key in self._held]
        unused = [buffer for buffer in released if buffer is not None]
        buffers = [*self._buffers, *unused]
        self._held, self._buffers, self._scratch = {}, {}, {}
        self.arena.free()
        if buffers:
            self._device.destroy_buffers(buffers)


class PlanMemory:
    """The memory of a plan beyond the memory that all plans share; `release` frees it."""

    def __init__(self, memory: DelegateMemory) -> None:
        self._memory = memory
        self._scratch: list[ScratchKey] = []
        self._chosen: dict[ScratchKey, ScratchKey] = {}
        self._blocks: list[bytes] = []

    async def blocks(self, params: Sequence[bytes]) -> list[Resource]:
        placed = await self._memory.arena.place(params)
        self._blocks += params
        return placed

    async def resource(self, binding: Binding) -> Resource:
        """Return the resource for a binding."""
        if isinstance(binding, int | SymIntUniform):
            return self._memory.place(binding)
        if isinstance(binding, bytes):
            (block,) = await self.blocks([binding])
            return block
        if isinstance(binding, Scratch):
            return await self._scratch_of(binding.key, aligned(binding.nbytes))
        if isinstance(binding, IndexFlag):
            return await self._memory.faults()
        return await self._memory.absent()

    async def _scratch_of(self, name: str, nbytes: int) -> Resource:
        wanted = (name, nbytes)
        if wanted not in self._chosen:
            self._chosen[wanted] = self._memory.scratch_for(wanted, self._chosen.values())
        key = self._chosen[wanted]
        taken = await self._memory.take_scratch(key)
        self._scratch.append(key)
        return Resource(taken.buffer, 0, nbytes)

    def release(self) -> None:
        """Free the memory; a second call does nothing."""
        for key in self._scratch:
            self._memory.release_scratch(key)
        self._memory.arena.release(self._blocks)
        self._scratch, self._chosen, self._blocks = [], {}, []
