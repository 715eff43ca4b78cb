"""The bytes of one replay: inputs that are uploaded, and outputs that are read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from webpte.engine.call.gpu_tensor import DeviceTensor
from webpte.engine.dtypes import narrow_to_storage
from webpte.engine.gpu.device import UNIFORM_ALIGNMENT
from webpte.engine.graph.graph import Tensor
from webpte.engine.plan.memory_plan import aligned
from webpte.engine.shapes import Dims, numel


@dataclass(frozen=True)
class Output:
    """An output tensor: its place on the device until the next run, and in the bytes read back."""

    value_id: int
    tensor: DeviceTensor
    offset: int

    def unpack(self, result: bytes) -> np.ndarray:
        """Return the tensor as a new array, in the declared dtype."""
        return self.tensor.decode(result, self.offset)


class Payload:
    """The upload block of a segment: tensors by value id, then one block per SymInt."""

    def __init__(self, tensors: Sequence[tuple[Tensor, Dims]], symints: int) -> None:
        layout = PayloadLayout()
        places = [
            (tensor, dims, layout.add(numel(dims) * tensor.dtype.storage.itemsize)[0])
            for tensor, dims in tensors
        ]
        start, _ = layout.add(symints * UNIFORM_ALIGNMENT)
        self.data = np.zeros(layout.nbytes, np.uint8)
        self._dtypes = {tensor.id: tensor.dtype for tensor, _ in tensors}
        self._views = {
            tensor.id: self._view(offset, dims, tensor.dtype.storage.numpy)
            for tensor, dims, offset in places
        }
        self.offsets = {tensor.id: offset for tensor, _, offset in places}
        self.symint_offset = start
        words = (symints, UNIFORM_ALIGNMENT // 4)
        self._symints = self._view(start, words, np.dtype(np.int32))

    def _view(self, offset: int, dims: Dims, dtype: np.dtype[np.generic]) -> np.ndarray:
        nbytes = numel(dims) * dtype.itemsize
        return self.data[offset : offset + nbytes].view(dtype).reshape(dims)

    def __contains__(self, value_id: int) -> bool:
        return value_id in self._views

    def fill(self, value_id: int, array: np.ndarray, what: str) -> None:
        """Copy an array into its place; integers must fit into what the GPU stores."""
        self._views[value_id][...] = narrow_to_storage(array, self._dtypes[value_id], what)

    def symint_place(self, index: int) -> int:
        """Return where in the block a SymInt is, by its place among them."""
        return self.symint_offset + index * UNIFORM_ALIGNMENT

    def fill_symints(self, values: Sequence[int]) -> None:
        self._symints[:, 0] = values


class PayloadLayout:
    """Places parts one after the other, each aligned, so that every copy has whole words."""

    def __init__(self) -> None:
        self.nbytes = 0

    def add(self, nbytes: int) -> tuple[int, int]:
        """Add a part; returns its offset and padded size."""
        offset, padded = self.nbytes, aligned(nbytes) if nbytes else 0
        self.nbytes += padded
        return offset, padded
