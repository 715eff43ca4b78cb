"""A GPU's memory as NumPy bytes, and dispatches that are computed by the references.

Kernels are not executed. A dispatch names its call and the places of that call's values; the call's
reference reads its inputs there and writes its outputs there. This tests the memory plan, aliases,
constants and the order of commands: everything but the kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from webpte.engine.dtypes import DType
from webpte.engine.gpu.device import BufferUse, Origin, Resource
from webpte.engine.graph.graph import Tensor
from webpte.engine.graph.live_state import LiveState
from webpte.engine.plan.reference import CheckedCalls, run_reference
from webpte.engine.shapes import numel
from webpte.errors import DeviceError, IndexRangeError, WebpteError

# A buffer larger than HUGE_BYTES stores only its first MAX_KEPT bytes: constants can be larger than
# the memory. Calls that use such a buffer compute zeros.
MAX_KEPT = 1 << 20
HUGE_BYTES = 64 << 20


class RecordedBuffer:
    """A stand-in for a `GPUBuffer`: zeros, without memory before the first write.

    `copyable` is the usage COPY_SRC.
    """

    def __init__(self, size: int, copyable: bool = True, use: BufferUse = "storage") -> None:
        self.size = size
        self.copyable = copyable
        self.use = use
        self.destroyed = False
        self._kept: np.ndarray | None = None

    def __repr__(self) -> str:
        return f"RecordedBuffer({self.size})"

    @property
    def is_huge(self) -> bool:
        return self.size > HUGE_BYTES

    def destroy(self) -> None:
        """Free the memory; copies from this buffer are errors afterwards."""
        self.destroyed, self._kept = True, None

    def read(self, nbytes: int, offset: int = 0) -> bytes:
        kept = b"" if self._kept is None else self._kept[offset : offset + nbytes].tobytes()
        return kept.ljust(nbytes, b"\0")

    def write(self, data: bytes | memoryview | np.ndarray, offset: int = 0) -> None:
        if self._kept is None:
            self._kept = np.zeros(MAX_KEPT if self.is_huge else self.size, np.uint8)
        flat = np.frombuffer(data, np.uint8)[: max(0, self._kept.size - offset)]
        self._kept[offset : offset + flat.size] = flat

    def clear(self) -> None:
        self._kept = None

    def copy_from(
        self, source: RecordedBuffer, nbytes: int, source_offset: int, target_offset: int
    ) -> None:
        kept = min(nbytes, MAX_KEPT) if self.is_huge else nbytes
        self.write(source.read(kept, source_offset), target_offset)


Memory = Mapping[int, RecordedBuffer]


class EmulatedCall:
    """A call that is computed by its NumPy reference, in place of its dispatches."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        call = origin.call
        # The call has been lowered already: its dispatches exist.
        self._op = replace(origin.op, lower=lambda args: [])
        positions = origin.op.signature.positions
        mutated = [call.args[positions[name]] for name in origin.op.mutates]
        self._reads = self._tensors(call.args[:-1])
        self._outs = self._tensors(call.args[-1:])
        self._writes = {**self._outs, **self._tensors(tuple(mutated))}
        self._live = LiveState(origin.graph)
        self._checked = CheckedCalls(origin.graph)
        for value_id, dims in origin.dims.items():
            self._live.set_cur_dims(value_id, dims)

    def _tensors(self, ids: tuple[int, ...]) -> dict[int, Tensor]:
        values = {i: self.origin.graph.value(i) for i in self.origin.graph.expand(ids)}
        return {i: value for i, value in values.items() if isinstance(value, Tensor)}

    def run(self, memory: Memory) -> None:
        places = self.origin.tensors
        if any(memory[place.buffer].is_huge for place in places.values()):
            self._write_zeros(memory)
            return
        self._live.begin()
        for value_id, place in self.origin.symints.items():
            word = memory[place.buffer].read(4, place.offset)
            self._live.set_symint(value_id, int.from_bytes(word, "little", signed=True))
        arrays = {i: self._decode(memory, i, tensor.dtype) for i, tensor in self._reads.items()}
        try:
            run_reference(
                self._op,
                self.origin.call,
                self.origin.graph,
                self._live,
                arrays,
                checked=self._checked,
            )
        except IndexRangeError:
            self._write_faults(memory)
            self._write_zeros(memory)
            return
        except WebpteError as error:
            raise DeviceError(f"a kernel got inputs that it cannot compute: {error}") from error
        for value_id, tensor in self._writes.items():
            if value_id in places:
                self._encode(memory, places[value_id], arrays[value_id], tensor.dtype)

    def _decode(self, memory: Memory, value_id: int, dtype: DType) -> np.ndarray:
        place, dims = self.origin.tensors[value_id], self._live.cur_dims(value_id)
        nbytes = numel(dims) * dtype.storage.itemsize
        self._check_room(place, nbytes)
        flat = np.frombuffer(memory[place.buffer].read(nbytes, place.offset), dtype.storage.numpy)
        cast = dtype.cast(flat.reshape(dims))  # values beyond f16 become infinite
        return cast if cast.flags.writeable else cast.copy()

    def _encode(self, memory: Memory, place: Resource, array: np.ndarray, dtype: DType) -> None:
        with np.errstate(all="ignore"):
            stored = array.astype(dtype.storage.numpy)
        self._check_room(place, stored.nbytes)
        memory[place.buffer].write(stored.tobytes(), place.offset)

    def _check_room(self, place: Resource, nbytes: int) -> None:
        if nbytes > place.nbytes:
            raise DeviceError(
                f"{self.origin.call}: a tensor of {nbytes} bytes in a binding of {place.nbytes}"
            )

    def _write_zeros(self, memory: Memory) -> None:
        for value_id, tensor in self._outs.items():
            if value_id in self.origin.tensors:
                place = self.origin.tensors[value_id]
                elements = numel(self._live.cur_dims(value_id))
                zeros = bytes(min(elements * tensor.dtype.storage.itemsize, HUGE_BYTES))
                memory[place.buffer].write(zeros, place.offset)

    def _write_faults(self, memory: Memory) -> None:
        """Set the index flags, as `atomicMax` does in wgsl/lib/index_flag.wgsl."""
        if not self.origin.faults:
            raise DeviceError(f"{self.origin.call}: an index is out of range, and has no flag")
        for number, place in self.origin.faults:
            word = int.from_bytes(memory[place.buffer].read(4, place.offset), "little")
            memory[place.buffer].write(max(word, number).to_bytes(4, "little"), place.offset)
