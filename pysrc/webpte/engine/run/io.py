"""Conversion of inputs and outputs: checks, the bytes of a replay, and tensors on the GPU."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from webpte.engine.call.gpu_tensor import DeviceTensor, GpuTensor, allocate, lend, with_dtype
from webpte.engine.call.info import MethodInfo, ScalarInfo, TensorInfo
from webpte.engine.dtypes import BFLOAT16, DTYPES, is_bfloat16, narrow_to_storage
from webpte.engine.gpu.device import UNIFORM_ALIGNMENT, Device, GpuCopy
from webpte.engine.graph.graph import Graph, Tensor
from webpte.engine.plan.memory_plan import aligned
from webpte.engine.run.memory import DelegateMemory
from webpte.engine.shapes import Dims, fits, numel
from webpte.errors import InputError

OnGpu = DeviceTensor | GpuTensor
Input = np.ndarray | int | OnGpu


class OutputPlacement(Enum):
    """The place of an output tensor after a run. SymInts always come back to the host."""

    HOST = "read back as an array"
    BORROWED = "left in the delegate's memory, valid until its next run"
    OWNED = "copied to GPU memory of its own"


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
    """The upload block of a segment: tensors by value id, then a block per SymInt."""

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
        """Copy an array to its place in the block; integers must fit the stored integer type."""
        self._views[value_id][...] = narrow_to_storage(array, self._dtypes[value_id], what)

    def symint_place(self, index: int) -> int:
        """Return the offset in the block of the SymInt with this index."""
        return self.symint_offset + index * UNIFORM_ALIGNMENT

    def fill_symints(self, values: Sequence[int]) -> None:
        self._symints[:, 0] = values


class PayloadLayout:
    """Layout of a buffer: parts in sequence, each aligned, so that every copy has whole words."""

    def __init__(self) -> None:
        self.nbytes = 0

    def add(self, nbytes: int) -> tuple[int, int]:
        """Add a part; returns the part's offset and padded size."""
        offset, padded = self.nbytes, aligned(nbytes) if nbytes else 0
        self.nbytes += padded
        return offset, padded


def check_inputs(method: MethodInfo, inputs: Sequence[Any], device: Device | None) -> list[Any]:
    """Check inputs; returns arrays in the declared dtypes, GPU tensors of `device`, and numbers.

    `device` is None if there is no GPU.
    """
    if len(inputs) != len(method.inputs):
        listed = "; ".join(map(str, method.inputs)) or "none"
        raise InputError(
            f"method {method.name!r} takes {len(method.inputs)} inputs ({listed}), "
            f"but {len(inputs)} were given"
        )
    return [
        value
        if isinstance(info, TensorInfo) and _is_as_declared(info, value)
        else _checked(method, info, value, device)
        for info, value in zip(method.inputs, inputs, strict=True)
    ]


def _is_as_declared(info: TensorInfo, value: Any) -> bool:
    """Return whether an array is exactly as declared: the quick check for repeated calls."""
    return (
        type(value) is np.ndarray
        and info.dtype != BFLOAT16  # its arrays may have to be rounded
        and value.dtype == DTYPES[info.dtype].numpy
        and value.shape == info.shape
    )


def _checked(
    method: MethodInfo, info: TensorInfo | ScalarInfo, value: Any, device: Device | None
) -> Any:
    where = f"method {method.name!r}, {info}"
    if isinstance(info, TensorInfo):
        return _check_tensor(info, value, device, where)
    return _check_scalar(info, value, where)


def _check_tensor(
    info: TensorInfo, value: Any, device: Device | None, where: str
) -> np.ndarray | GpuTensor:
    if device is not None and device.is_native_buffer(value):
        value = _of_buffer(info, value, device, where)
    if isinstance(value, GpuTensor):
        return _check_gpu_tensor(info, value, device, where)
    if not isinstance(value, np.ndarray | np.generic):
        raise InputError(f"{where}: a NumPy array is needed, not a {type(value).__name__}")
    array, dtype = np.asarray(value), DTYPES[info.dtype]
    if info.dtype == BFLOAT16:
        _check_bfloat16(array.dtype, where)
    else:
        _check_dtype(array.dtype, dtype.numpy, where)
    _check_shape(info, array.shape, where)
    return dtype.cast(array)


def _check_gpu_tensor(
    info: TensorInfo, tensor: GpuTensor, device: Device | None, where: str
) -> GpuTensor:
    if device is None:
        raise InputError(
            f"{where}: a {tensor} was given, but the program runs on NumPy; "
            "`await tensor.numpy()` gives the array"
        )
    dtype = DTYPES[info.dtype]
    if BFLOAT16 in (dtype.name, tensor.declared_dtype) and dtype.name != tensor.declared_dtype:
        raise InputError(
            f"{where}: {dtype.name} is needed, not a {tensor}; "
            "`await tensor.numpy()` gives an array, which is converted"
        )
    _check_dtype(tensor.dtype, dtype.numpy, where)
    _check_shape(info, tensor.shape, where)
    lend(tensor, device)
    return with_dtype(tensor, dtype)


def _of_buffer(info: TensorInfo, buffer: Any, device: Device, where: str) -> GpuTensor:
    """Wrap a caller's `GPUBuffer` of exactly the input's size."""
    hint = "webpte.GpuTensor.from_buffer(buffer, dtype, shape) says what is in a buffer"
    if info.dynamic:
        raise InputError(f"{where}: the size of the input is not fixed; {hint}")
    tensor = GpuTensor.from_buffer(buffer, info.dtype, info.shape, device)
    size = int(buffer.size)
    if size > aligned(tensor.nbytes):
        raise InputError(
            f"{where}: a GPUBuffer of {size:,} bytes is larger than the input, which has "
            f"{tensor.nbytes:,}; {hint}"
        )
    return tensor


def _check_dtype(given: np.dtype[Any], wanted: np.dtype[Any], where: str) -> None:
    widened = given.kind in "iu" and wanted.kind in "iu" and np.can_cast(given, wanted, "safe")
    if given != wanted and not widened:
        raise InputError(
            f"{where}: {wanted} is needed, not {given}; convert with array.astype(np.{wanted})"
        )


def returned(info: MethodInfo, inputs: Sequence[Any], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return outputs of bfloat16 as arrays of ml_dtypes' type if an input is such an array."""
    if not any(one.dtype == BFLOAT16 for one in info.outputs if isinstance(one, TensorInfo)):
        return outputs
    given = (value.dtype for value in inputs if isinstance(value, np.ndarray | np.generic))
    wanted = next(filter(is_bfloat16, given), None)
    if wanted is None:
        return outputs
    return tuple(
        value.astype(wanted)
        if isinstance(one, TensorInfo) and one.dtype == BFLOAT16 and isinstance(value, np.ndarray)
        else value
        for one, value in zip(info.outputs, outputs, strict=True)
    )


def _check_bfloat16(given: np.dtype[Any], where: str) -> None:
    """Raise unless an array has a dtype of which an input of bfloat16 is made."""
    if given == np.float32 or is_bfloat16(given):
        return
    bits = "; if these are the bits of bfloat16: (array.astype(np.uint32) << 16).view(np.float32)"
    raise InputError(
        f"{where}: bfloat16 is needed, which NumPy does not have: give float32, which is rounded, "
        f"or ml_dtypes.bfloat16, not {given}{bits if given == np.uint16 else ''}"
    )


def _check_shape(info: TensorInfo, shape: Dims, where: str) -> None:
    if len(shape) != len(info.shape):
        raise InputError(
            f"{where}: rank {len(info.shape)} is needed, not {len(shape)}: {list(shape)}"
        )
    if info.unbounded or shape == info.shape:
        return
    if not info.dynamic:
        raise InputError(f"{where}: {list(shape)} was given")
    if not fits(shape, info.shape):
        raise InputError(
            f"{where}: {list(shape)} was given: {numel(shape)} elements, and the program has "
            f"memory for {numel(info.shape)}"
        )


def _check_scalar(info: ScalarInfo, value: Any, where: str) -> Any:
    kinds: dict[str, tuple[type, ...]] = {
        "int": (int, np.integer),
        "float": (float, int, np.floating, np.integer),
        "bool": (bool, np.bool_),
        "str": (str,),
        "None": (type(None),),
    }
    if not isinstance(value, kinds[info.kind]):
        raise InputError(f"{where}: a {info.kind} is needed, not a {type(value).__name__}")
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class OwnedOutputs:
    """The GPU tensors of a run's outputs with placement OWNED, in order."""

    sources: Sequence[DeviceTensor]
    tensors: Sequence[GpuTensor]

    @classmethod
    async def allocate(
        cls, device: Device, outputs: Sequence[Output], placements: Sequence[OutputPlacement]
    ) -> OwnedOutputs:
        """Allocate a tensor for each output with placement OWNED."""
        pairs = zip(outputs, placements, strict=True)
        sources = [output.tensor for output, place in pairs if place is OutputPlacement.OWNED]
        tensors = await allocate(device, [(t.dtype, t.stored, t.shape) for t in sources])
        return cls(sources, tensors)

    def copies(self, device: Device) -> list[GpuCopy]:
        """List the copies from the delegate's memory to the tensors."""
        return [
            GpuCopy(source.buffer, lend(tensor, device).buffer, source.copy_bytes)
            for source, tensor in zip(self.sources, self.tensors, strict=True)
            if source.nbytes
        ]

    def destroy(self) -> None:
        """Free the tensors of a run that failed."""
        for tensor in self.tensors:
            tensor.destroy()


NONE_OWNED = OwnedOutputs((), ())


def _on_device(value: OnGpu, device: Device) -> DeviceTensor:
    return lend(value, device) if isinstance(value, GpuTensor) else value


async def to_readable_inputs(
    inputs: Sequence[Input], graph: Graph, on_host: Collection[int], device: Device
) -> list[Input]:
    """Read back the inputs on the GPU that the graph cannot take from there.

    An input is read back if it is needed `on_host`, or if its elements are stored in another way
    than the graph stores them.
    """
    given: list[Input] = []
    # the number of inputs is checked later
    for value_id, value in zip(graph.inputs, inputs, strict=False):
        if isinstance(value, OnGpu):
            tensor, stored = _on_device(value, device), graph.tensor(value_id).dtype.storage
            if value_id in on_host or tensor.stored != stored:
                given.append(await tensor.read(device))
                continue
        given.append(value)
    return [*given, *inputs[len(given) :]]


def input_copies(
    inputs: Sequence[Input], graph: Graph, memory: DelegateMemory, device: Device
) -> list[GpuCopy]:
    """List the copies of inputs on the GPU to the places where the graph reads them."""
    copies = []
    for value_id, value in zip(graph.inputs, inputs, strict=True):
        if isinstance(value, OnGpu) and memory.holds(value_id):
            tensor, target = _on_device(value, device), memory.buffer_of(value_id)
            if tensor.nbytes and tensor.buffer != target:
                copies.append(GpuCopy(tensor.buffer, target, tensor.copy_bytes))
    return copies


def host_arrays(inputs: Sequence[Input], graph: Graph) -> dict[int, np.ndarray]:
    """Map value ids to the inputs that are arrays."""
    by_id = zip(graph.inputs, inputs, strict=True)
    return {value_id: value for value_id, value in by_id if isinstance(value, np.ndarray)}
