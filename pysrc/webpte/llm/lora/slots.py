"""The room that a program has for LoRA: the linear layers, the rank, and the places of weights.

A linear layer y = W x gets a branch, y = W x + B (A x), with A of `rank` rows and B of `rank`
columns. Layers of the same input share a first step: their A lie below each other in one tensor,
and each B has columns for all of them, with zeros in the columns of the other layers. A LoRA of a
smaller rank leaves the rest zero; without a LoRA everything is zero.

All these tensors lie in sequence in `source`, with the contents of the LoRA in use: a reader on the
host (a rebuilt program, a comparison with NumPy) reads the same weights as the GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from webpte.engine.dtypes import DType
from webpte.engine.files.source import BytesSource, Region
from webpte.engine.shapes import Dims, numel
from webpte.errors import InputError, UnsupportedError
from webpte.llm.lora.weights import LoraWeights

MAX_RANK = 1024
_ALIGNMENT = 16


@dataclass(frozen=True)
class LoraRoom:
    """The largest LoRA that a program can take.

    rank     its largest rank
    modules  the linear layers that it may change, by their names or the ends of their names, such
             as "q_proj"; None: all linear layers of the decoder's layers
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
    """A linear layer of the model, or a part of a layer, and the exporter's changes to its weights.

    name   the layer's name in the model
    key    the name of the weights in the file
    pairs  (heads, size of a head) if the two rows of a rotated pair are next to each other
    rows   (groups, begin, end): it has the rows from `begin` to `end` of each group of rows
    scale  a factor in the weights
    shift  a vector that was subtracted from the input, and whose effect is in the layer's bias
    """

    name: str
    key: str
    pairs: tuple[int, int] | None = None
    rows: tuple[int, int, int] | None = None
    scale: float = 1.0
    shift: np.ndarray | None = field(default=None, compare=False)

    def matrix(self, whole: np.ndarray) -> np.ndarray:
        """Return the module's rows of a layer's second matrix (rows, n), in the program's order."""
        found = whole
        if self.rows is not None:
            groups, begin, end = self.rows
            found = found.reshape(groups, -1, whole.shape[1])[:, begin:end]
            found = found.reshape(-1, whole.shape[1])
        if self.pairs is not None:
            heads, size = self.pairs
            split = found.reshape(heads, 2, size // 2, -1)
            found = split.transpose(0, 2, 1, 3).reshape(found.shape)
        return found * np.float32(self.scale)


@dataclass(frozen=True)
class LoraSlot:
    """A tensor of the room, at an offset of the source.

    The tensor is A of some layers, B of a layer, or the product of A and the shifts of inputs.
    """

    dims: Dims
    dtype: DType
    offset: int

    @property
    def nbytes(self) -> int:
        return numel(self.dims) * self.dtype.itemsize


@dataclass(frozen=True)
class Branch:
    """The place of a linear layer in the room: its tensors, and its first row and column there.

    `inputs` and `outputs` are the widths of the layer.
    """

    module: LinearModule
    inputs: int
    outputs: int
    a: LoraSlot
    b: LoraSlot
    shift: LoraSlot | None
    first: int

    @property
    def slots(self) -> list[LoraSlot]:
        """The branch's tensors."""
        return [slot for slot in (self.a, self.b, self.shift) if slot is not None]


@dataclass
class LoraSlots:
    """All branches of a program by the name of their layer, and the bytes of the LoRA in use.

    A layer that the exporter split has several branches.
    """

    room: LoraRoom
    branches: Mapping[str, Sequence[Branch]]
    source: BytesSource
    data: bytearray = field(repr=False)

    @classmethod
    def of(cls, room: LoraRoom, branches: Mapping[str, Sequence[Branch]]) -> LoraSlots:
        """Return empty slots."""
        slots = _slots_of(branches)
        data = bytearray(max((slot.offset + slot.nbytes for slot in slots), default=0))
        return cls(room, branches, BytesSource(data, "LoRA"), data)

    def region(self, slot: LoraSlot) -> Region:
        """Return the region of a slot; each read returns the bytes of the LoRA in use."""
        return Region(self.source, slot.offset, slot.nbytes)

    @property
    def slots(self) -> list[LoraSlot]:
        """Every slot once, in the order of the source."""
        return sorted(_slots_of(self.branches), key=lambda slot: slot.offset)

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
            parts = self.branches[name]
            inputs, outputs = parts[0].inputs, sum(branch.outputs for branch in parts)
            if (factor.inputs, factor.outputs) != (inputs, outputs):
                raise InputError(
                    f"{lora.name}: layer {name!r} takes {factor.inputs} and gives "
                    f"{factor.outputs} values, but {inputs} and {outputs} in the program: it was "
                    "trained for another model"
                )

    def filled(self, lora: LoraWeights | None) -> Iterator[tuple[LoraSlot, np.ndarray | None]]:
        """Yield every slot with its contents for a LoRA; None for zeros."""
        arrays: dict[LoraSlot, np.ndarray] = {}
        factors = {} if lora is None else lora.factors
        parts = [(branch, one) for name, one in factors.items() for branch in self.branches[name]]
        for branch, factor in parts:
            for slot in branch.slots:
                if slot not in arrays:
                    arrays[slot] = np.zeros(slot.dims, slot.dtype.numpy)
            used = slice(branch.first, branch.first + factor.rank)
            arrays[branch.a][used] = factor.a
            arrays[branch.b][:, used] = branch.module.matrix(factor.b)
            if branch.shift is not None and branch.module.shift is not None:
                arrays[branch.shift][used] = factor.a @ branch.module.shift
        for slot in self.slots:
            yield slot, arrays.get(slot)

    def store(self, lora: LoraWeights | None) -> None:
        """Write a LoRA to the bytes of the source."""
        for slot, array in self.filled(lora):
            found = bytes(slot.nbytes) if array is None else slot.dtype.to_bytes(array)
            self.data[slot.offset : slot.offset + slot.nbytes] = found


def _slots_of(branches: Mapping[str, Sequence[Branch]]) -> set[LoraSlot]:
    return {slot for parts in branches.values() for branch in parts for slot in branch.slots}


class SlotPlanner:
    """Planner of the places of slots; the same layers get the same slots in every method."""

    def __init__(self, room: LoraRoom) -> None:
        self.room = room
        self.branches: dict[str, list[Branch]] = {}
        self._end = 0
        self._planned: dict[tuple[LinearModule, ...], list[Branch]] = {}

    def add(
        self, group: Sequence[tuple[LinearModule, int]], inputs: int, dtype: DType
    ) -> list[Branch]:
        """Return the branches of layers (with their widths) that have the same input."""
        modules = tuple(module for module, _ in group)
        if modules in self._planned:
            return self._planned[modules]
        rows = self.room.rank * len(group)
        a = self._slot((rows, inputs), dtype)
        shifted = any(module.shift is not None for module in modules)
        shift = self._slot((rows,), dtype) if shifted else None
        made = []
        for place, (module, outputs) in enumerate(group):
            b = self._slot((outputs, rows), dtype)
            made.append(Branch(module, inputs, outputs, a, b, shift, place * self.room.rank))
            known = self.branches.setdefault(module.name, [])
            if any(branch.module == module for branch in known):
                raise UnsupportedError(
                    f"layer {module.name!r} is used in two ways by the program's methods, so it "
                    "cannot take a LoRA"
                )
            known.append(made[-1])
        self._planned[modules] = made
        return made

    def _slot(self, dims: Dims, dtype: DType) -> LoraSlot:
        slot = LoraSlot(dims, dtype, self._end)
        self._end += -(-slot.nbytes // _ALIGNMENT) * _ALIGNMENT
        return slot
