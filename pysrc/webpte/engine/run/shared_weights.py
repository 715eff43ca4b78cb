"""Constants that several delegates of a device read: uploaded once, to a buffer for all.

Methods that share weights (prefill and decode, say) have them once in the file, and programs that
share weights have them in a common file of data. Each distinct constant gets a buffer, which is
freed when the last delegate that reads the constant is closed. A graph never shares a buffer with
itself: each of its values has a separate buffer, even where two values have equal bytes. A constant
that a graph writes to (a cache) is not shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from webpte.engine.files.source import Region, equal_bytes
from webpte.engine.gpu.device import Device
from webpte.engine.graph.graph import Graph, Tensor
from webpte.engine.plan.memory_plan import MemoryPlan
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.rewrite.validate import ConstantTransfer


@dataclass(frozen=True)
class ConstantKey:
    """The key of constants that can share a buffer: bytes, conversion, and size of the buffer.

    `copy` numbers the values of a graph whose other fields are equal. `name` is the name of the
    bytes in the file: exporters name bytes by their hash.
    """

    region: Region
    convert: str | None
    nbytes: int
    copy: int
    name: str | None = field(default=None, compare=False)

    @property
    def named(self) -> tuple[object, ...]:
        """The fields that are known without reading the bytes."""
        return self.name, self.region.size, self.convert, self.nbytes, self.copy


def conversion(tensor: Tensor) -> str | None:
    """Return the dtype to convert a constant from, or None if the GPU stores the same dtype."""
    return None if tensor.dtype.name == tensor.dtype.stored else tensor.dtype.name


def shareable(
    graph: Graph, transfers: Iterable[ConstantTransfer], storage: MemoryPlan
) -> dict[int, ConstantKey]:
    """Return the keys of the slots whose constants nothing writes to."""
    written = Dataflow.of(graph).volatile | set(graph.inputs)
    copies: Counter[ConstantKey] = Counter()
    keys: dict[int, ConstantKey] = {}
    for transfer in transfers:
        target = transfer.target
        if target.id in written:
            continue
        slot = storage.slots[storage.slot_of[target.id]]
        region = transfer.constant.region.head(target.file_bytes)
        alike = ConstantKey(region, conversion(target), slot.nbytes, 0, transfer.constant.key)
        keys[slot.index] = replace(alike, copy=copies[alike])
        copies[alike] += 1
    return keys


class ConstantStore:
    """The shared constants of a device; each is added once it is uploaded."""

    def __init__(self) -> None:
        self._buffers: dict[ConstantKey, int] = {}
        self._users: Counter[ConstantKey] = Counter()
        self._by_name: dict[tuple[object, ...], ConstantKey] = {}

    @classmethod
    def of(cls, device: Device) -> ConstantStore:
        """Return the store of a device."""
        return _STORES.setdefault(device, cls())

    async def same_bytes(self, key: ConstantKey) -> ConstantKey:
        """Return the key of an uploaded constant with the same bytes, or else the given key.

        Bytes of other files are compared if they have the same name and need no network.
        """
        other = self._by_name.get(key.named)
        if key.name is None or key in self._buffers or other is None:
            return key
        return other if await equal_bytes(key.region, other.region) else key

    def take(self, key: ConstantKey) -> int | None:
        """Return the buffer of an uploaded constant, and count a further user; else None."""
        if key in self._buffers:
            self._users[key] += 1
        return self._buffers.get(key)

    def add(self, key: ConstantKey, buffer: int) -> bool:
        """Add a new constant, with its first user; False if another delegate has added it."""
        if key in self._buffers:
            return False
        self._buffers[key] = buffer
        self._users[key] = 1
        self._by_name.setdefault(key.named, key)
        return True

    def release(self, key: ConstantKey) -> int | None:
        """Count one user less; returns the buffer if that user was the last."""
        self._users[key] -= 1
        if self._users[key]:
            return None
        del self._users[key]
        if self._by_name.get(key.named) == key:
            del self._by_name[key.named]
        return self._buffers.pop(key)


_STORES: WeakKeyDictionary[Device, ConstantStore] = WeakKeyDictionary()
