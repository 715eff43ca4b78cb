"""Values as people type them: `0.5`, `1 2 3, 4`, or nested lists like `[[1, 2], [3, 4]]`.

Also plain bytes, which have no shape either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from page.shared.html.units import count_text, shape_text
from page.shared.npy import Array, NpyError, check_fits
from webpte.engine.dtypes import DTYPES, array_dtype
from webpte.engine.files.json_reader import parse_json

_WORDS = {"true": True, "false": False, "nan": np.nan, "inf": np.inf, "-inf": -np.inf}
_HOW = "Type one value for all elements, a list like 1 2 3, or nested lists like [[1, 2], [3, 4]]."


class TypedError(ValueError):
    """The typed text is not a value, or does not fit."""


def parse_values(
    text: str, *, dtype: str, dims: Sequence[int], bounds: Sequence[tuple[int, int]]
) -> Array:
    """Parse typed values: one value fills `dims`; a flat list takes their shape, or one within
    bounds."""
    values = _read(text.strip())
    array = _converted(values, dtype)
    if array.ndim > 1:
        return check_fits(array, dtype=dtype, bounds=bounds, name="what is typed")
    if array.size == 1:
        return np.full(tuple(dims), array.reshape(()), array_dtype(dtype))
    return array.reshape(shape_for(array.size, dims, bounds))


def parse_bytes(
    data: bytes,
    dtype: str,
    dims: Sequence[int],
    bounds: Sequence[tuple[int, int]],
    name: str = "the file",
) -> Array:
    """Read plain bytes, lowest byte first. Raises NpyError if they do not fill the array."""
    kind = DTYPES[dtype]
    if not data or len(data) % kind.itemsize:
        raise NpyError(
            f"{name} has {count_text(len(data))} bytes, which is not a multiple of the "
            f"{kind.itemsize} bytes of a {dtype}."
        )
    flat = kind.from_bytes(bytearray(data))
    try:
        return flat.reshape(shape_for(flat.size, dims, bounds))
    except TypedError as error:
        wanted = shape_text([high for _, high in bounds], bounds)
        raise NpyError(
            f"{name} has {count_text(flat.size)} values of {dtype}, which do not fill {wanted}. If "
            "sizes may change, set them first, or save a .npy, which has them."
        ) from error


def _read(text: str) -> object:
    if not text:
        raise TypedError(_HOW)
    if text.startswith("["):
        joined = re.sub(r",(\s*[\]])", r"\1", text)
        return parse_json(joined, "What is typed", _list_error, not_finite=True)
    if empty := re.search(r"^\s*[,;]|[,;]\s*[,;]", text):
        raise TypedError(f"A value is missing before {empty[0].strip()[-1]!r}. {_HOW}")
    return [_number(word) for word in re.split(r"[\s,;]+", text) if word]


def _list_error(told: str) -> TypedError:
    return TypedError(f"These lists are incomplete. {told}. {_HOW}")


def _number(word: str) -> float | int | bool:
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            pass
    raise TypedError(f"{word!r} is not a number. {_HOW}")


def _converted(values: object, dtype: str) -> Array:
    try:
        array = np.array(values)
    except ValueError as error:
        raise TypedError("These lists differ in length or depth.") from error
    wanted = array_dtype(dtype)
    if array.dtype.kind not in "biuf":
        raise TypedError(f"Something in these lists is not a number. {_HOW}")
    if wanted.kind in "iub":
        whole = array.dtype.kind != "f" or bool((array == np.floor(array)).all())
        low, high = (0, 1) if wanted.kind == "b" else _limits(wanted)
        if not whole or (array.size and not (low <= array.min() and array.max() <= high)):
            raise TypedError(f"This input takes integers from {low:,} to {high:,} ({dtype}).")
    with np.errstate(over="ignore"):
        found = array.astype(wanted)
    if wanted.kind == "f" and not np.array_equal(np.isinf(found), np.isinf(array)):
        largest = float(np.finfo(wanted).max)
        raise TypedError(f"This input takes numbers up to {largest:.4g} ({dtype}), or inf.")
    return found


def _limits(kind: np.dtype[Any]) -> tuple[int, int]:
    found = np.iinfo(kind)
    return int(found.min), int(found.max)


def shape_for(
    count: int, dims: Sequence[int], bounds: Sequence[tuple[int, int]]
) -> tuple[int, ...]:
    """Return the shape that is set, or one whose only free dim fits the number of values."""
    if count == prod(dims):
        return tuple(dims)
    free = [dim for dim, (low, high) in enumerate(bounds) if low != high]
    if len(free) == 1:
        rest = prod(size for dim, size in enumerate(dims) if dim != free[0])
        low, high = bounds[free[0]]
        if rest and count % rest == 0 and low <= count // rest <= high:
            return tuple(count // rest if dim == free[0] else size for dim, size in enumerate(dims))
    raise TypedError(
        f"{count_text(count)} values are typed, but {shape_text(dims)} takes "
        f"{count_text(prod(dims))}. {_HOW}"
    )
