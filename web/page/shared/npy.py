"""`.npy` files and `.npz` archives in and out, and the check that an array fits an input."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from page.shared.html.units import shape_text
from webpte.engine.dtypes import array_dtype
from webpte.engine.files import arrays
from webpte.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]


class NpyError(ValueError):
    """The file is not a `.npy`, or does not fit."""


class TakenError(NpyError):
    """The array fits, but every input that it fits has got another one; it says what to do."""


def read_npy(data: bytes, name: str = "the file") -> Array:
    """Read the array of a `.npy` file. Object arrays are refused: unpickling runs code."""
    try:
        return arrays.read_npy(data, name)
    except InputError as error:
        raise NpyError(str(error)) from error


def read_npz(data: bytes, name: str) -> dict[str, Array]:
    """Read the arrays of a `.npz` archive, by name."""
    try:
        return arrays.read_npz(data, name)
    except InputError as error:
        raise NpyError(str(error)) from error


def write_npy(array: Array) -> bytes:
    """Return an array as a `.npy` file."""
    stream = io.BytesIO()
    npy_format.write_array(stream, np.asarray(array), allow_pickle=False)
    return stream.getvalue()


def write_npz(named: Mapping[str, Array]) -> bytes:
    """Return named arrays as a `.npz` archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:  # floats hardly compress
        for name, array in named.items():
            archive.writestr(f"{name}.npy", write_npy(array))
    return stream.getvalue()


def check_fits(
    array: Array, *, dtype: str, bounds: Sequence[tuple[int, int]], name: str = "the file"
) -> Array:
    """Return the array as the input takes it. Raises an NpyError that says what to do."""
    given, needed = array.dtype.newbyteorder("="), array_dtype(dtype)
    # As the program itself: integers may be wider inside than in the file, nothing else converts.
    widened = given.kind in "iu" and needed.kind in "iu" and np.can_cast(given, needed, "safe")
    if given != needed and not widened:
        raise NpyError(
            f"{name} holds {array.dtype.name}, but this input takes {dtype}. "
            f"Save it with array.astype('{needed}')."
        )
    shape = [high for _, high in bounds]
    if array.ndim != len(bounds):
        raise NpyError(
            f"{name} has {array.ndim} dimensions ({shape_text(array.shape)}), but this input has "
            f"{len(bounds)} ({shape_text(shape, bounds)})."
        )
    for dim, (size, (low, high)) in enumerate(zip(array.shape, bounds, strict=True)):
        if not low <= size <= high:
            wanted = str(low) if low == high else f"{low} to {high}"
            raise NpyError(
                f"{name} has the shape {shape_text(array.shape)}: dimension {dim} is {size}, "
                f"but this input takes {wanted} there ({shape_text(shape, bounds)})."
            )
    return np.ascontiguousarray(array, dtype=needed).reshape(array.shape)
