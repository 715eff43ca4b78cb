"""The class that Ray Data makes on every worker: batches of rows in, batches of results out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from webpte.errors import ClosedError, DeviceLostError, InputError, NoWebGPUError
from webpte.loading import load
from webpte.program import Program
from webpte_serve.ray.loop_thread import LoopThread
from webpte_serve.ray.row_calls import RowCall, RowMethod

Array = np.ndarray
Batch = dict[str, Array]

_AT_ONCE = 2  # calls at once: the host prepares while the GPU computes
_LOST = (DeviceLostError, NoWebGPUError)  # a GPU that restarts is missing for a while


class Predictor:
    """A program for batches of rows: `ray.data.Dataset.map_batches(Predictor, ...)`.

    A batch maps the names of columns to arrays with a row in each, (rows, ...). The batch is cut
    and padded to the program's sizes, and the results have the order of the rows. Rows are computed
    independently of each other. If the device is lost, the program is built again, and only rows
    without results are repeated.
    """

    def __init__(
        self,
        source: Any,
        *,
        method: str = "forward",
        device: str = "native",
        inputs: str | Sequence[str] | Mapping[str, str] | None = None,
        outputs: str | Sequence[str] | None = None,
        fixed: Mapping[str, Any] | None = None,
        keep: Sequence[str] | None = None,
        rows_per_call: int | None = None,
        retries: int = 3,
        **loading: Any,
    ) -> None:
        """Load a program.

        source   a path on this machine, or bytes, as for `webpte.load`, which takes `loading`, too
        device   "native" is the first GPU that this process may use, which Ray assigns to each
                 worker
        inputs   the columns for the method's inputs, in their order, or by their names; without it,
                 columns have the names of the inputs, or there is a single column and input
        outputs  the columns for the method's outputs, in their order; by default named by the
                 method
        fixed    inputs that are the same for all rows, by name
        keep     columns of the batch to return with the results; by default all but the inputs
        rows_per_call  the number of rows of every call, for a program that takes exactly so many
                 although its shapes are dynamic, or to use less memory
        retries  how often a batch is tried again after the device was lost
        """
        if retries < 0:
            raise InputError(f"retries is {retries}; it must be at least 0")
        self._method, self._retries = method, retries
        self._keep = None if keep is None else [keep] if isinstance(keep, str) else list(keep)
        self._turn = asyncio.Lock()
        self._thread, self._closed = LoopThread.shared(), False
        self._program: Program = self._thread.run(load(source, device=device, **loading))
        try:
            info = self._program.methods.get(method)
            if info is None:
                known = ", ".join(self._program.methods)
                raise InputError(f"{self._program.name} has no method {method!r}; it has: {known}")
            self._rows = RowMethod(info, fixed, rows_per_call)
            self._inputs = self._columns_of(inputs)
            self._outputs = self._names_of(outputs)
        except BaseException:
            self.close()
            raise

    def _columns_of(
        self, inputs: str | Sequence[str] | Mapping[str, str] | None
    ) -> list[str] | None:
        """Return the column of each input with rows; None if batches decide."""
        names = [one.name for one in self._rows.taken]
        if inputs is None:
            return None
        if isinstance(inputs, Mapping):
            if inputs.keys() != set(names):
                raise InputError(f"`inputs` names {list(inputs)}; the rows go into {names}")
            return [inputs[name] for name in names]
        columns = [inputs] if isinstance(inputs, str) else list(inputs)
        if len(columns) != len(names):
            raise InputError(
                f"`inputs` has {columns}; the rows go into {names}: give a column each"
            )
        return columns

    def _names_of(self, outputs: str | Sequence[str] | None) -> list[str]:
        own = [one.name for one in self._rows.outputs]
        names = own if outputs is None else [outputs] if isinstance(outputs, str) else list(outputs)
        if len(names) != len(own) or len(set(names)) != len(names):
            raise InputError(f"`outputs` has {names}; the program returns {own}: give a name each")
        return names

    def __call__(self, batch: Mapping[str, Array]) -> Batch:
        """Return the results of a batch, with the columns that are kept."""
        if self._closed:
            raise ClosedError(f"the predictor of {self._program.name} was closed")
        columns = self._chosen(batch)
        kept = [name for name in batch if name not in columns] if self._keep is None else self._keep
        missing = [name for name in (*columns, *kept) if name not in batch]
        twice = [name for name in self._outputs if name in kept]
        if missing:
            raise InputError(f"the batch has no column {missing}; it has {list(batch)}")
        if twice:
            raise InputError(f"{twice} would be a result and a kept column: rename one of them")
        given = [np.asarray(batch[name]) for name in columns]
        calls = self._rows.calls(given)
        results = self._thread.run(self._run(calls))
        found = self._rows.join(len(given[0]), calls, results)
        return {name: batch[name] for name in kept} | dict(zip(self._outputs, found, strict=True))

    def _chosen(self, batch: Mapping[str, Array]) -> list[str]:
        """Return the columns for the inputs that have rows."""
        if self._inputs is not None:
            return self._inputs
        names = [one.name for one in self._rows.taken]
        if all(name in batch for name in names):
            return names
        if len(names) == len(batch) == 1:
            return list(batch)
        raise InputError(
            f"the batch has {list(batch)}, and the rows go into {names}: name the columns in that "
            "order, as inputs=[...]"
        )

    async def _run(self, calls: Sequence[RowCall]) -> list[Any]:
        """Return the results of all calls, each of which counts once."""
        async with self._turn:  # two batches must not rebuild a lost program at the same time
            results: dict[int, Any] = {}
            lost: Exception | None = None
            for attempt in range(self._retries + 1):
                try:
                    if attempt:
                        await asyncio.sleep(2 ** (attempt - 1) - 1)  # 0, 1, 3, ... seconds
                        await self._program.recover()
                    await self._run_missing(calls, results)
                except _LOST as error:
                    lost = error
                else:
                    return [results[at] for at in range(len(calls))]
            raise DeviceLostError(
                f"the device was lost, and {self._retries} further attempts did not bring it back: "
                f"{lost}"
            ) from lost

    async def _run_missing(self, calls: Sequence[RowCall], results: dict[int, Any]) -> None:
        """Run the calls without a result; return, or raise, when none is under way."""
        left = deque(at for at in range(len(calls)) if at not in results)

        async def work() -> None:
            try:
                while left:
                    at = left.popleft()
                    results[at] = await self._program.run(self._method, *calls[at].inputs)
            except BaseException:
                left.clear()
                raise

        ended = await asyncio.gather(*(work() for _ in range(_AT_ONCE)), return_exceptions=True)
        errors = [error for error in ended if error is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, _LOST)):
            raise error

    def close(self) -> None:
        """Free the program's memory; the predictor cannot be called afterwards."""
        if not self._closed:
            self._closed = True
            self._thread.run(self._close())

    async def _close(self) -> None:
        async with self._turn:
            self._program.close()
