"""The host tensors that outlive calls: constants and mutable buffers, by method or for several.

The exporter can place the mutable buffers of several methods into one part of memory
(`share_mutable_buffers`): then all methods share the tensor at a place in this part. By default
every method has separate state, even if the eager model had a single buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from webpte.engine.dtypes import DType, dtype_of_program
from webpte.engine.files.source import Region
from webpte.engine.format.program import Allocation, DataLocation, Dynamism, TensorMeta
from webpte.engine.load.program_file import Contents, MethodContents, ParsedFile
from webpte.engine.load.writes import Writes
from webpte.engine.shapes import numel
from webpte.errors import ConstantError

# The memory id for the values of a single call. Shared state has a separate memory id.
ACTIVATIONS = 1


@dataclass(eq=False)
class Cell:
    """The array of a tensor from call to call; methods that share the tensor share the cell.

    `dtype` is the declared one. `region` are the initial bytes, where the file has them in the
    array's order. Calls that touch a `mutable` cell, which some call may write to, take turns.
    """

    array: np.ndarray
    dtype: DType
    region: Region | None = None
    mutable: bool = False


State = dict[int, Cell]


async def read_states(contents: Contents) -> dict[str, State]:
    """Read the state of each method: a cell for every tensor that has contents before a call.

    Methods of different files share nothing.
    """
    reader = _StateReader()
    found: dict[str, State] = {}
    for methods in _by_file(contents):
        found |= await _states_of(methods, reader)
    return {name: found[name] for name in contents.methods}


def count_zeros(contents: Contents, has_f16: bool) -> int:
    """Count the bytes on a GPU of the buffers without bytes in the file, each once."""

    def stored(tensor: TensorMeta, method: str) -> int:
        dtype = _dtype(tensor, method)
        kept = dtype if has_f16 and dtype.name == "float16" else dtype.storage
        return numel(tensor.sizes) * kept.itemsize

    total = 0
    for methods in _by_file(contents):
        writes = {name: Writes(method) for name, method in methods.items()}
        arenas = _shared_arenas(methods, writes)
        shared: dict[Allocation, int] = {}
        for name, method in methods.items():
            for _, tensor in _buffers(method, writes[name], arenas):
                place = tensor.allocation
                if method.file.program.tensor_span(tensor) is None and tensor.extra is None:
                    if place is not None and place.memory_id in arenas:
                        shared[place] = stored(tensor, name)
                    else:
                        total += stored(tensor, name)
        total += sum(shared.values())
    return total


def _by_file(contents: Contents) -> Iterable[Mapping[str, MethodContents]]:
    found: dict[ParsedFile, dict[str, MethodContents]] = {}
    for name, method in contents.methods.items():
        found.setdefault(method.file, {})[name] = method
    return found.values()


async def _states_of(
    methods: Mapping[str, MethodContents], reader: _StateReader
) -> dict[str, State]:
    """Read the state of the methods of a file."""
    writes = {name: Writes(method) for name, method in methods.items()}
    arenas = _shared_arenas(methods, writes)
    shared: dict[tuple[Allocation, DType, tuple[int, ...]], Cell] = {}
    states: dict[str, State] = {}
    for name, method in methods.items():
        known = await reader.initial_cells(method)
        state = dict(known)
        for index, tensor in _buffers(method, writes[name], arenas):
            dtype = _dtype(tensor, name)
            state.setdefault(index, Cell(np.zeros(tensor.sizes, dtype.numpy), dtype))
            if tensor.allocation is not None and tensor.allocation.memory_id in arenas:
                array = state[index].array
                cell = shared.setdefault((tensor.allocation, dtype, array.shape), state[index])
                if index in known:
                    cell.array = array  # the file may have the initial bytes in another method only
                state[index] = cell
        for index, cell in state.items():
            cell.mutable |= index in writes[name] or cell in shared.values()
        states[name] = state
    return states


def share_cells(states: Iterable[State]) -> bool:
    """Return whether methods share a tensor, so that their calls must take turns."""
    cells = [cell for state in states for cell in state.values()]
    return len(set(cells)) < len(cells)


def _tensors(method: MethodContents) -> Iterator[tuple[int, TensorMeta]]:
    for index, value in enumerate(method.plan.values):
        if isinstance(value, TensorMeta):
            yield index, value


def _shared_arenas(methods: Mapping[str, MethodContents], writes: Mapping[str, Writes]) -> set[int]:
    """Return the memory ids that hold only buffers, and have the same size in several methods."""
    sizes: dict[int, list[int]] = {}
    for method in methods.values():
        for memory_id, size in enumerate(method.plan.non_const_buffer_sizes):
            if memory_id > ACTIVATIONS and size:
                sizes.setdefault(memory_id, []).append(size)
    alike = {memory_id for memory_id, found in sizes.items() if len(found) > 1 == len(set(found))}
    for name, method in methods.items():
        for index, tensor in _tensors(method):
            if tensor.allocation is not None and index in writes[name].computed:
                alike.discard(tensor.allocation.memory_id)
    return alike


def _buffers(
    method: MethodContents, writes: Writes, arenas: set[int]
) -> Iterator[tuple[int, TensorMeta]]:
    """List mutable buffers; buffers without initial bytes in the file start as zeros.

    Buffers differ from other planned tensors only by the call that writes them back, or by their
    place in memory for shared state. Of several tensors at a place there, all but the first are
    views.
    """
    places: dict[Allocation, tuple[int, TensorMeta]] = {}
    for index, tensor in _tensors(method):
        if tensor.dynamism != Dynamism.STATIC or index in writes.computed:
            continue
        place = tensor.allocation
        if place is not None and place.memory_id in arenas:
            if place not in places or index in writes.changed:
                places[place] = index, tensor
        elif index in writes.changed:
            yield index, tensor
    yield from places.values()


def _dtype(tensor: TensorMeta, method: str) -> DType:
    return dtype_of_program(tensor.scalar_type, f"method {method!r}")


class _StateReader:
    """Reader of the initial values of tensors, which reads each distinct part of the file once."""

    def __init__(self) -> None:
        self._arrays: dict[object, np.ndarray] = {}

    async def initial_cells(self, method: MethodContents) -> State:
        """Map the tensors that have bytes in the file to cells."""
        cells = {}
        for index, tensor in _tensors(method):
            region = self._region(method, index, tensor)
            if region is None:
                continue
            key = (region, tensor.scalar_type, tensor.sizes, tensor.dim_order)
            if key not in self._arrays:
                data = await region.read(0, tensor.nbytes)
                self._arrays[key] = _decode(data, tensor, _dtype(tensor, method.plan.name))
            natural = tensor.dim_order == tuple(range(len(tensor.sizes)))
            dtype = _dtype(tensor, method.plan.name)
            cells[index] = Cell(self._arrays[key], dtype, region if natural else None)
        return cells

    def _region(self, method: MethodContents, index: int, tensor: TensorMeta) -> Region | None:
        if tensor.extra is None or tensor.extra.location != DataLocation.EXTERNAL:
            span = method.file.program.tensor_span(tensor)
            return None if span is None else Region(method.file.source, span.offset, span.size)
        key, where = tensor.extra.fully_qualified_name, f"method {method.plan.name!r}"
        if key not in method.named:
            raise ConstantError(
                f"{where}: tensor {index} has its bytes under {key!r} in a .ptd file; "
                "open that file together with the program"
            )
        if method.named[key].size < tensor.nbytes:
            raise ConstantError(
                f"{where}: tensor {index} needs {tensor.nbytes} bytes, "
                f"{key!r} has {method.named[key].size}"
            )
        return method.named[key]


def _decode(data: bytes, tensor: TensorMeta, dtype: DType) -> np.ndarray:
    """Convert bytes in dim order to an array in logical order."""
    stored = [tensor.sizes[dim] for dim in tensor.dim_order]
    inverse = np.argsort(tensor.dim_order)
    array = dtype.from_bytes(bytearray(data)).reshape(stored).transpose(inverse)
    # NumPy makes an array of rank 0 contiguous with rank 1
    return np.ascontiguousarray(array).reshape(tensor.sizes)
