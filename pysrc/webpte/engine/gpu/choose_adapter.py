"""The choice of a machine's GPU: by index, name or PCI id, and by environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from webpte.errors import DeviceError

# Environment variables that choose GPUs for other software, each with the PCI vendor of its GPUs.
HIDING = {"CUDA_VISIBLE_DEVICES": "10de", "ROCR_VISIBLE_DEVICES": "1002"}


@dataclass(frozen=True)
class AdapterInfo:
    """Facts about a GPU of this machine that `device="native:..."` can choose.

    index     its number: 0 is the adapter of `device="native"`
    pci_id    vendor and model, such as "10de:2335", or ""; equal GPUs have the same id
    backend   Dawn's name of the interface, such as "Vulkan"
    driver    the driver's name and version, as it gives them
    memory    bytes of the largest heap that belongs to the GPU, or None if unknown
    software  why it is known to compute on the CPU, or "" for a GPU
    """

    index: int
    name: str
    vendor: str = ""
    pci_id: str = ""
    backend: str = ""
    driver: str = ""
    memory: int | None = None
    software: str = ""

    def __str__(self) -> str:
        return f"{self.index} {self.name} ({', '.join(filter(None, (self.pci_id, self.backend)))})"


def choose(adapters: Sequence[AdapterInfo], wanted: str) -> int:
    """Return the index of the first wanted adapter; raises DeviceError if no adapter matches.

    wanted  an index, a PCI id, a part of the name in any case, or "" for the first adapter
    """
    folded = wanted.strip().casefold()
    for index, one in enumerate(adapters):
        names = one.name.casefold(), one.vendor.casefold()
        if folded.isdecimal():
            met = index == int(folded)
        else:
            met = folded == (one.pci_id or None) or any(folded in name for name in names)
        if met:
            return index
    listed = "; ".join(f"native:{one}" for one in adapters) or "none"
    raise DeviceError(f"no GPU is called 'native:{wanted}'; this machine has {listed}")


def visible(
    adapters: Sequence[AdapterInfo], environment: Mapping[str, str] = os.environ
) -> list[int]:
    """Return the places of the adapters that CUDA's and ROCm's variables leave, in their order.

    An entry of a variable is an index among the adapters of its vendor, in each backend. As in
    CUDA, an entry without a GPU ends the list.
    """
    places = list(range(len(adapters)))
    for name, vendor in HIDING.items():
        if name not in environment:
            continue
        for backend in {one.backend for one in adapters}:
            mine = [
                place
                for place in places
                if adapters[place].pci_id.startswith(f"{vendor}:")
                and adapters[place].backend == backend
            ]
            kept = [mine[index] for index in _entries(name, environment[name], len(mine))]
            slots = dict(zip(mine, kept, strict=False))
            places = [
                slots.get(place, place) for place in places if place not in mine or place in slots
            ]
    return places


def _entries(name: str, text: str, count: int) -> list[int]:
    """Read the variable's indexes of GPUs, of which there are `count`."""
    if count == 0:
        return []
    found: list[int] = []
    for entry in (part.strip() for part in text.split(",")):
        if entry.startswith(("GPU-", "MIG-")):
            if count > 1:
                raise DeviceError(
                    f"{name}={text} names GPUs by UUID, which WebGPU's adapters do not tell: "
                    "set it to indexes, or unset it and choose with device='native:INDEX'"
                )
            return [0]
        if not entry.isdecimal() or int(entry) >= count or int(entry) in found:
            break
        found.append(int(entry))
    return found
