"""The room that a program has for LoRA: which linear layers, which rank, and where weights go.

A linear layer y = W x gets a branch, y = W x + B (A x), with A of `rank` rows and B of `rank`
columns. Layers of one input share a first step: their A lie one below the other in one tensor, and
each B has columns for all of them, with zeros in those of the others. A LoRA of a smaller rank
leaves the rest zero; with none at all everything is zero.

All these tensors lie in `source`, one after the other, as those of the LoRA in use: what reads them
on the host (a rebuilt program, a comparison with NumPy) reads what the GPU has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from webpte.dtypes import DType
from webpte.errors import InputError
from webpte.runtime.lora.weights import LoraWeights
from webpte.shapes import Dims, numel
from webpte.source import BytesSource, Region

MAX_RANK = 1024
_ALIGNMENT = 16


@dataclass(frozen=True)
class LoraRoom:
    """The largest LoRA that a program will be given.

    rank     its largest rank
    modules  the linear layers that it may change, by their names or the ends of these, such as
             "q_proj"; None: all linear layers of the decoder's layers
    """

    rank: int
    modules: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if type(self.rank) is not int or not 1 <= self.rank <= MAX_RANK:
            raise InputError(f"a LoRA's rank is from 1 to {MAX_RANK}, not {self.rank!r}")
        if self.modules is not None and not self.modules:
            raise InputError("modules=(): a LoRA changes at least one linear layer")


@dataclass(frozen=True)
class LinearModule:
    """A linear layer of the model: its name, the key of its weights, and its order of rows.

    `pairs` are (heads, size of a head) if the exporter put the two rows of a rotated pair next to
    each other; None if rows are in the model's own order.
    """

    name: str
    key: str
    pairs: tuple[int, int] | None = None

    def rows(self, matrix: np.ndarray) -> np.ndarray:
        """Return a matrix (rows, n) with its rows in the program's order."""
        if self.pairs is None:
            return matrix
        heads, size = self.pairs
        split = matrix.reshape(heads, 2, size // 2, -1)
        return split.transpose(0, 2, 1, 3).reshape(matrix.shape)


@dataclass(frozen=True)
class LoraSlot:
    """One tensor of the room: A of some layers, or B of one of them. `offset` is in the source."""

    dims: Dims
    dtype: DType
    offset: int

    @property
    def nbytes(self) -> int:
        return numel(self.dims) * self.dtype.itemsize


@dataclass(frozen=True)
class Branch:
    """The place of one linear layer in the room: its tensors, and its first row and column there.

    `inputs` and `outputs` are the widths of the layer.
    """

    module: LinearModule
    inputs: int
    outputs: int
    a: LoraSlot
    b: LoraSlot
    first: int


@dataclass
class LoraSlots:
    """All branches of a program by the name of their layer, and the bytes of the LoRA in use."""

    room: LoraRoom
    branches: Mapping[str, Branch]
    source: BytesSource
    data: bytearray = field(repr=False)

    @classmethod
    def of(cls, room: LoraRoom, branches: Mapping[str, Branch]) -> LoraSlots:
        """Return empty slots."""
        slots = {slot for branch in branches.values() for slot in (branch.a, branch.b)}
        data = bytearray(max((slot.offset + slot.nbytes for slot in slots), default=0))
        return cls(room, branches, BytesSource(data, "LoRA"), data)

    def region(self, slot: LoraSlot) -> Region:
        """Return the bytes of a slot as they are now, whenever they are read."""
        return Region(self.source, slot.offset, slot.nbytes)

    @property
    def slots(self) -> list[LoraSlot]:
        """Every slot once, in the order of the source."""
        found = {slot for branch in self.branches.values() for slot in (branch.a, branch.b)}
        return sorted(found, key=lambda slot: slot.offset)

    def check(self, lora: LoraWeights) -> None:
        """Raise InputError if a LoRA does not fit."""
        others = [name for name in lora.factors if name not in self.branches]
        if others:
            ends = sorted({name.rpartition(".")[2] for name in self.branches})
            raise InputError(
                f"{lora.name} changes {len(others)} layers that the program has no room for, such "
                f"as {others[0]!r}; there is room for {', '.join(ends)}: load the program with "
                f"lora=LoraRoom({lora.rank}, modules=...) of all layers that it changes"
            )
        if lora.rank > self.room.rank:
            raise InputError(
                f"{lora.name} has rank {lora.rank}, and the program has room for "
                f"{self.room.rank}: load it with lora={lora.rank}"
            )
        for name, factor in lora.factors.items():
            branch = self.branches[name]
            if (factor.inputs, factor.outputs) != (branch.inputs, branch.outputs):
                raise InputError(
                    f"{lora.name}: layer {name!r} takes {factor.inputs} and gives "
                    f"{factor.outputs} values, but {branch.inputs} and {branch.outputs} in the "
                    "program: it was trained for another model"
                )

    def filled(self, lora: LoraWeights | None) -> Iterator[tuple[LoraSlot, np.ndarray | None]]:
        """Yield every slot with its contents for a LoRA; None for zeros."""
        arrays: dict[LoraSlot, np.ndarray] = {}
        for name, factor in () if lora is None else lora.factors.items():
            branch, rank = self.branches[name], factor.rank
            for slot in (branch.a, branch.b):
                if slot not in arrays:
                    arrays[slot] = np.zeros(slot.dims, slot.dtype.numpy)
            used = slice(branch.first, branch.first + rank)
            arrays[branch.a][used] = factor.a
            arrays[branch.b][:, used] = branch.module.rows(factor.b)
        for slot in self.slots:
            yield slot, arrays.get(slot)

    def store(self, lora: LoraWeights | None) -> None:
        """Make the bytes of the source those of a LoRA."""
        for slot, array in self.filled(lora):
            found = bytes(slot.nbytes) if array is None else array.tobytes()
            self.data[slot.offset : slot.offset + slot.nbytes] = found


class SlotPlanner:
    """Gives slots their places; the same layers get the same slots in every method."""

    def __init__(self, room: LoraRoom) -> None:
        self.room = room
        self.branches: dict[str, Branch] = {}
        self._end = 0
        self._stacked: dict[tuple[str, ...], LoraSlot] = {}

    def add(
        self, group: Sequence[tuple[LinearModule, int]], inputs: int, dtype: DType
    ) -> list[Branch]:
        """Return the branches of layers (with their widths) that have one input."""
        names = tuple(module.name for module, _ in group)
        if names not in self._stacked:
            rows = self.room.rank * len(group)
            stacked = self._stacked[names] = self._slot((rows, inputs), dtype)
            for place, (module, outputs) in enumerate(group):
                b = self._slot((outputs, rows), dtype)
                first = place * self.room.rank
                branch = Branch(module, inputs, outputs, stacked, b, first)
                if self.branches.setdefault(module.name, branch) is not branch:
                    raise InputError(
                        f"layer {module.name!r} is used in two ways by the program's methods, so "
                        "it cannot take a LoRA"
                    )
        return [self.branches[name] for name in names]

    def _slot(self, dims: Dims, dtype: DType) -> LoraSlot:
        slot = LoraSlot(dims, dtype, self._end)
        self._end += -(-slot.nbytes // _ALIGNMENT) * _ALIGNMENT
        return slot
