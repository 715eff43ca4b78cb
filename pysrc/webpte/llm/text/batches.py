"""Rows of tokens through an encoder, in batches: rows of similar length share a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from webpte.engine.call.info import TensorInfo
from webpte.errors import ExecutionError, InputError
from webpte.program import Program

Array = np.ndarray
Progress = Callable[[int, int], None]  # rows done, and all rows


class RowBatches:
    """A method whose inputs are all integers (rows, length); its outputs have a row for each."""

    def __init__(self, program: Program, method: str = "forward") -> None:
        self._program, self._method = program, method
        info = program.methods.get(method)
        inputs = () if info is None else info.inputs
        tensors = [one for one in inputs if isinstance(one, TensorInfo)]
        shapes = {one.shape for one in tensors}
        if (
            len(shapes) != 1
            or len(tensors) != len(inputs)
            or any(len(one.shape) != 2 or one.dtype not in ("int32", "int64") for one in tensors)
        ):
            told = "; ".join(map(str, inputs)) or "no inputs"
            raise InputError(
                f"{program.name}: method {method!r} does not take tokens (rows, length), but {told}"
            )
        self.inputs = len(tensors)
        (self._fewest, self._most), (self._shortest, self.longest) = tensors[0].bounds
        self._dtypes = [np.dtype(one.dtype) for one in tensors]

    async def run(
        self,
        columns: Sequence[Sequence[Sequence[int] | Array]],
        pads: Sequence[int],
        progress: Progress | None = None,
    ) -> list[tuple[Array, ...]]:
        """Return the outputs for each row.

        columns  for each input of the method, its rows; rows of the same index have the same length
        pads     for each input, the number after shorter rows
        """
        count = len(columns[0])
        # Neighbours in length share a batch, so little is computed for padding.
        order = sorted(range(count), key=lambda at: len(columns[0][at]))
        found: dict[int, tuple[Array, ...]] = {}
        for start in range(0, count, self._most):
            group = order[start : start + self._most]
            made = [
                self._joined([rows[at] for at in group], dtype, pad)
                for rows, dtype, pad in zip(columns, self._dtypes, pads, strict=True)
            ]
            outputs = await self._program.run(self._method, *made)
            for output in outputs:
                if not np.isfinite(output).all():  # its scores would be arbitrary
                    raise ExecutionError(f"{self._program.name} returned NaN or infinities")
            found |= {at: tuple(one[row] for one in outputs) for row, at in enumerate(group)}
            if progress is not None:
                progress(len(found), count)
        return [found[at] for at in range(count)]

    def _joined(self, rows: Sequence[Sequence[int] | Array], dtype: np.dtype, pad: int) -> Array:
        """Join rows into an array, at least as large as the program requires."""
        count = max(len(rows), self._fewest)
        length = max(self._shortest, *(len(row) for row in rows))
        joined = np.full((count, length), pad, dtype)
        for at, row in enumerate(rows):
            joined[at, : len(row)] = row
        return joined
