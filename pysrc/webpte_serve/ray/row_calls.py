"""Batches of rows as calls of a method: as many rows at once as the method takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from webpte.engine.call.info import MethodInfo, TensorInfo
from webpte.engine.dtypes import DTYPES
from webpte.engine.shapes import Dims
from webpte.errors import ExecutionError, InputError

Array = np.ndarray


@dataclass(frozen=True)
class RowCall:
    """A call of a method for some rows of a batch.

    rows     their indices in the batch
    inputs   of the method; the rows may be followed by padding
    size     the number of rows with padding; None if the method takes one row without a batch dim
    """

    rows: Sequence[int]
    inputs: tuple[Any, ...]
    size: int | None


class RowMethod:
    """A method that computes a row of each output from a row of each input.

    fixed          inputs that are the same for all rows, by name
    rows_per_call  the number of rows of every call, if the method takes exactly this number
                   although its shapes are dynamic, or to use less memory
    """

    def __init__(
        self,
        info: MethodInfo,
        fixed: Mapping[str, Any] | None = None,
        rows_per_call: int | None = None,
    ) -> None:
        self._where = f"method {info.name!r}"
        if info.keeps_state:
            raise InputError(
                f"{self._where} keeps state between calls, so its results depend on the order of "
                "the rows; give a method whose results follow from its inputs alone"
            )
        self._fixed = dict(fixed or {})
        unknown = self._fixed.keys() - {one.name for one in info.inputs}
        if unknown:
            raise InputError(
                f"{self._where} has no input {', '.join(sorted(unknown))}; it takes "
                + "; ".join(map(str, info.inputs))
            )
        self._inputs = info.inputs
        self.taken = tuple(self._with_rows())
        self.outputs = tuple(one for one in info.outputs if isinstance(one, TensorInfo))
        if not self.taken or len(self.outputs) != len(info.outputs) or not self.outputs:
            told = "; ".join(map(str, info.outputs)) or "nothing"
            raise InputError(
                f"{self._where} must take and return tensors with a row for each row of a batch; "
                f"rows go into {len(self.taken)} of its inputs, and it returns {told}"
            )
        self._rows_per_call = rows_per_call
        if rows_per_call is not None and rows_per_call < 1:
            raise InputError(f"rows_per_call is {rows_per_call}; it must be at least 1")

    def _with_rows(self) -> Iterator[TensorInfo]:
        for info in self._inputs:
            if info.name in self._fixed:
                continue
            if isinstance(info, TensorInfo):
                yield info
            elif info.kind != "None":
                raise InputError(f"{self._where}: give {info} in `fixed`, for all rows")

    def calls(self, columns: Sequence[Array]) -> list[RowCall]:
        """Return the calls for a batch: `columns` has the rows of each input in `taken`.

        A column of dtype object has rows of several shapes; rows of equal shapes share calls.
        """
        counts = {len(column) for column in columns}
        if len(counts) != 1:
            raise InputError(f"the columns of a batch have {sorted(counts)} rows; give as many")
        (count,) = counts
        found = list[RowCall]()
        for rows, arrays in _of_equal_shapes(columns, count):
            pairs = zip(arrays, self.taken, strict=True)
            found += self._cut(rows, [self._converted(array, info) for array, info in pairs])
        return found

    def _cut(self, rows: Sequence[int], arrays: Sequence[Array]) -> Iterator[RowCall]:
        """Cut rows of equal shapes into calls."""
        more = {
            array.ndim - len(info.shape) for array, info in zip(arrays, self.taken, strict=True)
        }
        if more == {1}:  # a program for one row
            for at, row in enumerate(rows):
                yield RowCall([row], self._given([np.array(array[at]) for array in arrays]), None)
            return
        if more != {0}:
            told = ", ".join(str(list(array.shape)) for array in arrays)
            raise InputError(
                f"{self._where} takes {'; '.join(map(str, self.taken))}, and the columns are {told}"
                ": each must have the dims of its input, or those after a dim for the rows"
            )
        fewest, most = self._bounds()
        for start in range(0, len(rows), most):
            part = rows[start : start + most]
            size = max(fewest, len(part))
            cut = [_padded(array[start : start + most], size) for array in arrays]
            yield RowCall(part, self._given(cut), size)

    def _bounds(self) -> tuple[int, int]:
        """Return the smallest and largest number of rows of a call."""
        bounds = [info.bounds[0] for info in self.taken]
        fewest, most = max(1, *(low for low, _ in bounds)), min(high for _, high in bounds)
        size = self._rows_per_call
        if fewest > most or (size is not None and not fewest <= size <= most):
            called = "" if size is None else f"; rows_per_call is {size}"
            raise InputError(
                f"{self._where} takes {'; '.join(map(str, self.taken))}: no number of rows fits "
                f"all{called}. Inputs without rows are given in `fixed`"
            )
        return (fewest, most) if size is None else (size, size)

    def _given(self, arrays: Sequence[Array]) -> tuple[Any, ...]:
        """Return all inputs of a call, in the method's order."""
        rows = {info.name: array for info, array in zip(self.taken, arrays, strict=True)}
        return tuple(rows.get(info.name, self._fixed.get(info.name)) for info in self._inputs)

    def _converted(self, array: Array, info: TensorInfo) -> Array:
        """Return numbers in the input's type, if it is of the same kind.

        Rows come with the widest types, for any numbers.
        """
        dtype = DTYPES[info.dtype].numpy
        kinds = array.dtype.kind, dtype.kind
        if array.dtype == dtype or not (kinds == ("f", "f") or set(kinds) <= set("iu")):
            return array
        with np.errstate(all="ignore"):
            made = array.astype(dtype)
        lost = np.isinf(made) & np.isfinite(array) if kinds[1] == "f" else made != array
        if lost.any():
            raise InputError(f"{self._where}, {info}: {array[lost].flat[0]} does not fit into it")
        return made

    def join(self, count: int, calls: Sequence[RowCall], results: Sequence[Any]) -> list[Array]:
        """Return the rows of each output, in the order of the batch.

        Rows of several shapes become an array of dtype object.
        """
        if not calls:
            return [np.zeros((0, *one.shape[1:]), DTYPES[one.dtype].numpy) for one in self.outputs]
        order = np.concatenate([call.rows for call in calls])
        assert np.array_equal(np.sort(order), np.arange(count)), "each row is computed once"
        return [
            _in_order(
                order, [self._rows(call, out[at]) for call, out in zip(calls, results, strict=True)]
            )
            for at in range(len(self.outputs))
        ]

    def _rows(self, call: RowCall, output: Array) -> Array:
        if call.size is None:
            return output[None]
        if output.ndim < 1 or len(output) != call.size:
            raise ExecutionError(
                f"{self._where} returned {list(output.shape)} for {call.size} rows; every output "
                "must have a row for each row of the inputs. If the method takes another number of "
                "rows than its dynamic shapes allow, give that as rows_per_call"
            )
        return output[: len(call.rows)]


def _of_equal_shapes(
    columns: Sequence[Array], count: int
) -> Iterator[tuple[Sequence[int], Sequence[Array]]]:
    """Yield groups of rows, each with its columns."""
    if all(column.dtype != object for column in columns):
        if count:
            yield range(count), columns
        return
    groups: dict[tuple[Dims, ...], list[int]] = {}
    for at in range(count):
        groups.setdefault(tuple(np.shape(column[at]) for column in columns), []).append(at)
    for rows in groups.values():
        yield rows, [np.stack([np.asarray(column[at]) for at in rows]) for column in columns]


def _padded(array: Array, size: int) -> Array:
    """Return an array with its last row repeated, up to a number of rows."""
    missing = size - len(array)
    return np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) if missing else array


def _in_order(order: Array, parts: Sequence[Array]) -> Array:
    """Join parts and put their rows at the places `order`."""
    if len({part.shape[1:] for part in parts}) == 1:
        joined = np.concatenate(parts)
        made = np.empty_like(joined)
        made[order] = joined
        return made
    rows = [row for part in parts for row in part]
    ragged = np.empty(len(rows), object)
    for at, row in zip(order, rows, strict=True):
        ragged[at] = row
    return ragged
