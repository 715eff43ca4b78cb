"""LoRAs on a device: each has a copy of its weights there; the copy in use is copied to the slots.

Switching is a single submission of copies on the GPU, after all work that was submitted before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from webpte.engine.call.call import Lifetime, count_submission
from webpte.engine.files.source import BytesSource, Region
from webpte.engine.gpu.device import Device, GpuCopy, Transfer
from webpte.engine.plan.memory_plan import aligned
from webpte.engine.rewrite.validate import ConstantTransfer, constant_transfers
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.numpy_delegate import NumpyDelegate
from webpte.engine.run.shared_weights import conversion
from webpte.engine.shapes import numel
from webpte.errors import ClosedError, InputError, UnsupportedError
from webpte.llm.lora.slots import LoraSlot, LoraSlots
from webpte.llm.lora.weights import LoraWeights


class Lora:
    """A LoRA that a program can use, made by `webpte.llm.load_lora`. `close` frees its memory."""

    def __init__(self, weights: LoraWeights) -> None:
        self._weights: LoraWeights | None = weights
        self._copies: LoraCopies | None = None
        self.name = weights.name
        self.rank = weights.rank
        self.layers = tuple(weights.factors)
        self.nbytes = weights.nbytes

    def __repr__(self) -> str:
        return f"<Lora {self.name!r}: rank {self.rank}, {len(self.layers)} layers>"

    def close(self) -> None:
        """Free the LoRA's memory. A program that uses it does so until the next switch."""
        self._weights = None
        if self._copies is not None:
            self._copies.free()
            self._copies = None


# A program's access to its LoRAs: no part of the public API


def weights_of(lora: Lora) -> LoraWeights:
    """Return the matrices of a LoRA; ClosedError after `close`."""
    if lora._weights is None:
        raise ClosedError(f"{lora.name} was closed; load it again")
    return lora._weights


def allocated_by(lora: Lora) -> dict[int, int]:
    """Return the GPU buffers of a LoRA by number, with their bytes."""
    held = {} if lora._copies is None else lora._copies.buffers
    return {buffer: stored_bytes(slot) for slot, buffer in held.items()}


async def copies_on(
    lora: Lora, device: Device, lifetime: Lifetime, slots: LoraSlots
) -> dict[LoraSlot, int]:
    """Return the buffers with a LoRA's contents of slots, uploaded by the first call."""
    if lora._copies is None or lora._copies.lifetime is not lifetime:
        made = LoraCopies(device, lifetime)
        await made.upload(slots, weights_of(lora))
        lora._copies = made
    return lora._copies.buffers


class LoraCopies:
    """The buffers of a LoRA on a device, for as long as a build of the program lives."""

    def __init__(self, device: Device, lifetime: Lifetime) -> None:
        self._device = device
        self.lifetime = lifetime
        self.buffers: dict[LoraSlot, int] = {}

    async def upload(self, slots: LoraSlots, weights: LoraWeights) -> None:
        """Create and fill the buffers; free all of them if that fails."""
        filled = [(slot, array) for slot, array in slots.filled(weights) if array is not None]
        made = await self._device.create_buffers(
            [stored_bytes(slot) for slot, _ in filled], use="constant"
        )
        self.buffers = dict(zip((slot for slot, _ in filled), made, strict=True))
        self.lifetime.hold(self.free)
        try:
            await self._device.transfer(
                [_transfer(slot, array, self.buffers[slot]) for slot, array in filled]
            )
            self.lifetime.check()
        except BaseException:
            self.free()
            raise

    def free(self) -> None:
        """Destroy the buffers; a second call does nothing."""
        buffers, self.buffers = list(self.buffers.values()), {}
        if buffers:
            self._device.destroy_buffers(buffers)


def stored_bytes(slot: LoraSlot) -> int:
    """Return the size of a slot's buffer."""
    return aligned(numel(slot.dims) * slot.dtype.storage.itemsize)


def _transfer(slot: LoraSlot, array: np.ndarray, buffer: int) -> Transfer:
    source = BytesSource(slot.dtype.to_bytes(array), "LoRA")
    convert = None if slot.dtype.name == slot.dtype.stored else slot.dtype.name
    return Transfer(Region(source, 0, source.size), buffer, convert)


class LoraTargets:
    """The tensors of a program's delegates that hold its slots."""

    def __init__(
        self, slots: LoraSlots, gpu: Sequence[GpuDelegate], host: Iterable[NumpyDelegate]
    ) -> None:
        self._slots = slots
        self._by_offset = {slot.offset: slot for slot in slots.slots}
        self.buffers = {
            (slot, delegate.memory.buffer_of(transfer.target.id)): delegate.device
            for delegate in gpu
            for slot, transfer in self._held(delegate.constants().values())
        }
        self.arrays = [
            (slot, delegate, transfer.target.id)
            for delegate in host
            for slot, transfer in self._held(constant_transfers(delegate.graph))
        ]

    def _held(
        self, transfers: Iterable[ConstantTransfer]
    ) -> Iterable[tuple[LoraSlot, ConstantTransfer]]:
        for transfer in transfers:
            region = transfer.constant.region
            if region.source is self._slots.source:
                slot = self._by_offset.get(region.offset)
                if slot is None or slot.dims != transfer.target.dims:
                    raise UnsupportedError(
                        "the room for LoRA is larger than one binding of the GPU: load the program "
                        "with a smaller rank"
                    )
                assert conversion(transfer.target) in (None, slot.dtype.name)
                yield slot, transfer

    def set_arrays(self, lora: LoraWeights | None) -> None:
        """Write a LoRA to the arrays of delegates on the host."""
        filled = dict(self._slots.filled(lora)) if self.arrays else {}
        for slot, delegate, value_id in self.arrays:
            array = filled[slot]
            if array is None:
                array = np.zeros(slot.dims, slot.dtype.numpy)
            delegate.set_state({value_id: array})

    async def copies(
        self, lora: Lora | None, lifetime: Lifetime, zeros: ZeroBuffer
    ) -> list[GpuCopy]:
        """Return the copies that switch the GPU to a LoRA, once its buffers are there."""
        found = []
        for (slot, buffer), device in self.buffers.items():
            held = {} if lora is None else await copies_on(lora, device, lifetime, self._slots)
            source = held.get(slot)
            if source is None:
                source = await zeros.on(device, lifetime, stored_bytes(slot), self._slots)
            found.append(GpuCopy(source, buffer, stored_bytes(slot)))
        return found


class ZeroBuffer:
    """A buffer of zeros, as large as the largest slot, made on first use."""

    def __init__(self) -> None:
        self._lifetime: Lifetime | None = None
        self._buffer = 0

    async def on(self, device: Device, lifetime: Lifetime, nbytes: int, slots: LoraSlots) -> int:
        """Return the buffer on a device, for the lifetime of a build."""
        if self._lifetime is not lifetime:
            largest = max(stored_bytes(slot) for slot in slots.slots)
            (buffer,) = await device.create_buffers([max(largest, nbytes)])
            lifetime.hold(lambda: device.destroy_buffers([buffer]))
            self._lifetime, self._buffer = lifetime, buffer
        return self._buffer


def submit_copies(device: Device, copies: Sequence[GpuCopy]) -> None:
    """Copy on the GPU, in a single submission."""
    if copies:
        device.copy(copies)
        count_submission()


def check_fits(slots: LoraSlots | None, program: str, lora: LoraWeights) -> LoraSlots:
    """Return the slots of a program; raise InputError without slots, or if a LoRA does not fit."""
    if slots is None:
        raise InputError(
            f"{program} was loaded without room for LoRA: load it by "
            f"webpte.llm.load(..., lora={lora.rank})"
        )
    slots.check(lora)
    return slots
