"""Checks of a method's inputs, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from webpte.engine.call.gpu_tensor import GpuTensor, lend, with_dtype
from webpte.engine.call.info import MethodInfo, ScalarInfo, TensorInfo
from webpte.engine.dtypes import DTYPES
from webpte.engine.gpu.device import Device
from webpte.engine.plan.memory_plan import aligned
from webpte.engine.shapes import Dims, fits, numel
from webpte.errors import InputError


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
    """Tell whether an array is exactly as declared: the quick check for repeated calls."""
    return (
        type(value) is np.ndarray
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
    array, dtype = np.asarray(value), DTYPES[info.dtype].numpy
    _check_dtype(array.dtype, dtype, where)
    _check_shape(info, array.shape, where)
    return array.astype(dtype, copy=False)


def _check_gpu_tensor(
    info: TensorInfo, tensor: GpuTensor, device: Device | None, where: str
) -> GpuTensor:
    if device is None:
        raise InputError(
            f"{where}: a {tensor} was given, but the program runs on NumPy; "
            "`await tensor.numpy()` gives the array"
        )
    dtype = DTYPES[info.dtype]
    _check_dtype(tensor.dtype, dtype.numpy, where)
    _check_shape(info, tensor.shape, where)
    lend(tensor, device)
    return with_dtype(tensor, dtype)


def _of_buffer(info: TensorInfo, buffer: Any, device: Device, where: str) -> GpuTensor:
    """Wrap a `GPUBuffer` that is given as it is; it must be exactly as large as the input."""
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
