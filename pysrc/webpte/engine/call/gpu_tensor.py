"""Tensors in GPU memory: tensors that a delegate lends, and tensors that belong to the caller.

A delegate's outputs are in its own memory, which its next call overwrites. That is good enough from
a delegate of a method to the next. A caller (`output="gpu"`) gets a copy, made on the GPU together
with the call's other work, in a buffer that nothing else writes to.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from webpte.engine.call.call import count_submission
from webpte.engine.dtypes import BFLOAT16, DTYPES, NATIVE_HALF, DType, convert_exactly
from webpte.engine.gpu.device import Device, GpuCopy
from webpte.engine.gpu.devices import made_device
from webpte.engine.plan.memory_plan import aligned
from webpte.engine.shapes import Dims, numel
from webpte.errors import ClosedError, DeviceLostError, InputError, UnsupportedError

WORD_BYTES = 4  # WebGPU copies whole words


@dataclass(frozen=True)
class DeviceTensor:
    """A tensor in a buffer on the device; its source documents how long it stays valid."""

    buffer: int
    dtype: DType  # the dtype as an array
    stored: DType  # the dtype of the elements in the buffer
    shape: Dims

    @cached_property
    def count(self) -> int:
        """Number of elements."""
        return numel(self.shape)

    @property
    def nbytes(self) -> int:
        return self.count * self.stored.itemsize

    @property
    def copy_bytes(self) -> int:
        """Bytes to copy for all elements: whole words."""
        return -(-self.nbytes // WORD_BYTES) * WORD_BYTES

    def decode(self, data: bytes, offset: int = 0) -> np.ndarray:
        """Return bytes of the buffer as a new array."""
        flat = np.frombuffer(data, self.stored.numpy, self.count, offset)
        if self.stored is self.dtype:
            return flat.reshape(self.shape).copy()
        cast = self.dtype.cast(flat.reshape(self.shape))  # values beyond f16 become infinite
        return cast if cast.flags.writeable else cast.copy()

    async def read(self, device: Device) -> np.ndarray:
        if not self.nbytes:
            return self.decode(b"")
        reading = device.read(self.buffer, self.copy_bytes)
        count_submission()
        return self.decode(await reading)


class _Memory:
    """A buffer that is freed on request, or when nothing refers to it any more."""

    def __init__(
        self, device: Device, buffer: int, give_back: Callable[[Sequence[int]], None]
    ) -> None:
        self.device = device
        self.give_back = weakref.finalize(self, give_back, [buffer])
        self.give_back.atexit = False


class GpuTensor:
    """A tensor that stays on the GPU: an output of `run(..., output="gpu")`, or a `GPUBuffer`.

    Programs on the same device take it wherever they take an array. Its memory is freed by
    `destroy`, with its last reference, or at the latest when the program that made it is closed.
    """

    def __init__(self, memory: _Memory, tensor: DeviceTensor) -> None:
        self._memory = memory
        self._tensor = tensor

    @classmethod
    def from_buffer(
        cls, buffer: Any, dtype: Any, shape: Sequence[int], device: Device | None = None
    ) -> GpuTensor:
        """Wrap a JavaScript `GPUBuffer` (usage COPY_SRC) as an input; it stays yours to destroy.

        Elements are row-major from the start of the buffer, as the GPU stores `dtype`: see
        `stored_dtype`. `device` is `program.device` of a program on a device that is not shared.
        """
        device = made_device() if device is None else device
        declared = _dtype_named(dtype)
        dims = tuple(int(size) for size in shape)
        if min(dims, default=0) < 0:
            raise InputError(f"a GPUBuffer with the shape {list(dims)}: sizes cannot be negative")
        number, size = device.adopt_buffer(buffer)
        memory = _Memory(device, number, device.forget_buffers)
        tensor = cls(memory, DeviceTensor(number, declared, _stored(declared, device), dims))
        needed = tensor._tensor.copy_bytes
        if size < needed:
            raise InputError(
                f"a GPUBuffer of {size:,} bytes is too small for {tensor}: {needed:,} are needed, "
                f"{tensor.stored_dtype.itemsize} for each element, in whole words"
            )
        return tensor

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype as an array: float32 for bfloat16, which `declared_dtype` tells apart."""
        return self._tensor.dtype.numpy

    @property
    def declared_dtype(self) -> str:
        """The name of the dtype that the program declares, such as "float32" or "bfloat16"."""
        return self._tensor.dtype.name

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """The dtype of the elements in the buffer: 64-bit values have 32 bits there.

        float16 is stored as float32, unless the GPU's shaders have f16 (the feature shader-f16),
        and so is bfloat16 everywhere.
        """
        return self._tensor.stored.numpy

    @property
    def shape(self) -> Dims:
        return self._tensor.shape

    @property
    def nbytes(self) -> int:
        """Bytes of its elements in the buffer, which can be a little larger."""
        return self._tensor.nbytes

    @property
    def device(self) -> Device:
        return self._memory.device

    @property
    def destroyed(self) -> bool:
        return not self._memory.give_back.alive

    @property
    def buffer(self) -> Any:
        """The JavaScript `GPUBuffer`: elements row-major from its start; usable in a bind group."""
        return self.device.native_buffer(self._checked().buffer)

    async def numpy(self) -> np.ndarray:
        """Read the tensor back."""
        return await self._checked().read(self.device)

    def destroy(self) -> None:
        """Free the memory now; a second call does nothing."""
        self._memory.give_back()

    def _checked(self) -> DeviceTensor:
        if self.device.lost:
            raise DeviceLostError(f"{self} was lost with its device")
        if self.destroyed:
            raise ClosedError(f"{self} was destroyed, or the program that made it was closed")
        return self._tensor

    def __repr__(self) -> str:
        return f"GpuTensor({self.declared_dtype} {list(self.shape)})"

    def _repr_html_(self) -> str:
        place = "destroyed" if self.destroyed else self.device.info.kind
        shape = "×".join(map(str, self.shape)) or "scalar"
        row = {
            "elements": self.declared_dtype,
            "shape": shape,
            "bytes": f"{self.nbytes:,}",
            "place": place,
        }
        heads = "".join(f"<th>{heading}</th>" for heading in row)
        cells = "".join(f"<td>{value}</td>" for value in row.values())
        caption = "<caption>A tensor on the GPU</caption>"
        head, body = f"<thead><tr>{heads}</tr></thead>", f"<tbody><tr>{cells}</tr></tbody>"
        return f"<table>{caption}{head}{body}</table>"


# The runtime's access to tensors: no part of the public API


def lend(tensor: GpuTensor, device: Device) -> DeviceTensor:
    """Return a tensor's place on `device`, for the time of one call."""
    if tensor.device is not device:
        raise InputError(
            f"{tensor} is on another device than the program; "
            "`await tensor.numpy()` gives an array that every program takes"
        )
    return tensor._checked()


def with_shape(tensor: GpuTensor, shape: Dims) -> GpuTensor:
    """Return a tensor on the same memory, in another shape with as many elements."""
    return GpuTensor(tensor._memory, replace(tensor._tensor, shape=shape))


def with_dtype(tensor: GpuTensor, dtype: DType) -> GpuTensor:
    """Return a tensor on the same memory, with the dtype that a method declares."""
    return GpuTensor(tensor._memory, replace(tensor._tensor, dtype=dtype))


def share_memory(one: GpuTensor, other: GpuTensor) -> bool:
    """Tell whether two tensors are on the same memory."""
    return one._memory is other._memory


def allocated_bytes(tensor: GpuTensor) -> dict[int, int]:
    """Map the number of a tensor's buffer to its bytes; {} once it is destroyed."""
    return {} if tensor.destroyed else {tensor._tensor.buffer: aligned(tensor.nbytes)}


async def allocate(device: Device, tensors: Sequence[tuple[DType, DType, Dims]]) -> list[GpuTensor]:
    """Allocate a tensor of zeros, with separate memory, for each (type, stored type, shape)."""
    sizes = [aligned(numel(dims) * stored.itemsize) for _, stored, dims in tensors]
    buffers = await device.create_buffers(sizes) if sizes else []
    return [
        GpuTensor(
            _Memory(device, buffer, device.destroy_buffers),
            DeviceTensor(buffer, dtype, stored, dims),
        )
        for buffer, (dtype, stored, dims) in zip(buffers, tensors, strict=True)
    ]


async def join_rows(parts: Sequence[tuple[GpuTensor, int, int]]) -> GpuTensor:
    """Copy rows of tensors [1, rows, width] into a new tensor, on the GPU.

    parts   tensors of the same device, dtype and width, each with its first row and number of rows
    """
    device = parts[0][0].device
    tensors = [lend(tensor, device) for tensor, _, _ in parts]
    dtype, stored, width = tensors[0].dtype, tensors[0].stored, tensors[0].shape[-1]
    assert all((one.stored, one.shape[-1]) == (stored, width) for one in tensors)
    size = width * stored.itemsize
    if size % WORD_BYTES:
        raise UnsupportedError(f"rows of {size} bytes cannot be copied on the GPU: not whole words")
    total = sum(count for _, _, count in parts)
    (made,) = await allocate(device, [(dtype, stored, (1, total, width))])
    target, copies, at = lend(made, device).buffer, list[GpuCopy](), 0
    for one, (_, first, count) in zip(tensors, parts, strict=True):
        places = {"source_offset": first * size, "target_offset": at * size}
        copies.append(GpuCopy(one.buffer, target, count * size, **places))
        at += count
    try:
        device.copy(copies)
    except BaseException:
        made.destroy()
        raise
    count_submission()
    return made


async def upload(device: Device, array: np.ndarray, dtype: DType, what: str) -> GpuTensor:
    """Upload an array to a new tensor; OverflowError for integers that the GPU cannot store."""
    stored = _stored(dtype, device)
    rounded = dtype.cast(array) if dtype.name == BFLOAT16 else array
    elements = np.ascontiguousarray(convert_exactly(rounded, stored.numpy, what))
    (tensor,) = await allocate(device, [(dtype, stored, array.shape)])
    if elements.nbytes:
        data = np.zeros(aligned(elements.nbytes), np.uint8)
        data[: elements.nbytes] = elements.reshape(-1).view(np.uint8)
        try:
            device.write(lend(tensor, device).buffer, 0, data)
        except BaseException:
            tensor.destroy()  # a reference to the error would keep the memory, too
            raise
    return tensor


def _stored(dtype: DType, device: Device) -> DType:
    native = dtype.name == NATIVE_HALF.name and device.info.has_f16
    return (NATIVE_HALF if native else dtype).storage


def _dtype_named(dtype: Any) -> DType:
    try:
        # NumPy knows bfloat16 only by the type of ml_dtypes.
        return DTYPES[BFLOAT16 if dtype == BFLOAT16 else np.dtype(dtype).name]
    except (KeyError, TypeError):
        raise InputError(
            f"no tensor has the dtype {dtype!r}; there are {', '.join(DTYPES)}"
        ) from None
