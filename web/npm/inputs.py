"""Inputs of a method as JavaScript gives them: checked here, so that messages are in its words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npm.values import FlatArray, unshaped
from webpte import MethodInfo, TensorInfo
from webpte.engine.dtypes import DTYPES
from webpte.errors import InputError

# The arrays of JavaScript by the dtype of their elements.
_ARRAYS = {
    "float16": "a Float16Array, or its bits in a Uint16Array with dtype: 'float16'",
    "float32": "a Float32Array",
    "bfloat16": "a Float32Array",  # rounded to bfloat16
    "float64": "a Float64Array",
    "int8": "an Int8Array",
    "int16": "an Int16Array",
    "int32": "an Int32Array",
    "int64": "a BigInt64Array",
    "uint8": "a Uint8Array",
    "uint16": "a Uint16Array",
    "uint32": "a Uint32Array",
    "uint64": "a BigUint64Array",
    "bool": "a Uint8Array with dtype: 'bool'",
}
_KINDS = {
    list: "a plain array",
    dict: "an object",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def method_inputs(name: str, info: MethodInfo | None, inputs: Any) -> list[Any]:
    """Return the inputs of a method, each array with a shape. Raises InputError.

    info  of the method; None for an unknown name
    """
    if not isinstance(inputs, list):
        raise InputError(f"{name}: the inputs are an array, one item each: run({name!r}, [input])")
    declared = info.inputs if info is not None else ()
    given = list(inputs)
    for at, (value, one) in enumerate(zip(inputs, declared, strict=False)):
        if isinstance(one, TensorInfo):
            given[at] = _tensor(value, one, f"{name}: input {at} ({str(one).partition(': ')[2]})")
        elif isinstance(value, FlatArray):
            raise InputError(f"{name}: input {at} is a plain {one.kind}, not an array")
    return [unshaped(value) for value in given]


def _tensor(value: Any, info: TensorInfo, where: str) -> Any:
    """Check an input that is a tensor; one on the GPU is checked by the program."""
    needed = _ARRAYS.get(info.dtype, f"a tensor of {info.dtype}")
    if type(value) in _KINDS:
        raise InputError(f"{where}: it is {_KINDS[type(value)]}; {needed} is needed")
    elements = value.elements if isinstance(value, FlatArray) else value
    if isinstance(elements, np.ndarray) and not _fits(elements.dtype, DTYPES[info.dtype].numpy):
        raise InputError(f"{where}: it is {_ARRAYS[elements.dtype.name]}; {needed} is needed")
    return _shaped(value.elements, info, where) if isinstance(value, FlatArray) else value


def _fits(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Tell whether a program takes elements of a dtype: integers may be of fewer bits."""
    both_whole = given.kind in "iu" and wanted.kind in "iu"
    return given == wanted or (both_whole and np.can_cast(given, wanted, "safe"))


def _shaped(elements: np.ndarray, info: TensorInfo, where: str) -> np.ndarray:
    """Return a flat array with the shape that the method declares."""
    if len(info.shape) == 1:
        return elements
    if info.dynamic:
        raise InputError(f"{where}: an array alone does not say its shape; give {{data, shape}}")
    needed = math.prod(info.shape)
    if elements.size != needed:
        raise InputError(f"{where}: it has {elements.size:,} elements; {needed:,} are needed")
    return elements.reshape(info.shape)
