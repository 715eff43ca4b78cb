"""Tasks whose program takes one array for each picture or sound: they are run in batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from webpte.errors import ExecutionError, InputError
from webpte.runtime.base.info import TensorInfo
from webpte.tasks.files import CONFIG, PREPROCESSOR, ModelFiles
from webpte.tasks.task import Task

Array = np.ndarray
_METHOD = "forward"


class ArrayTask(Task):
    """A task of a program with one input and one output, whose first dims are those of a batch.

    input_rank    the number of dims of its input, a batch's included
    output_ranks  the numbers of dims that its output may have
    """

    needed: ClassVar[Sequence[str]] = (CONFIG, PREPROCESSOR)
    input_rank: ClassVar[int] = 2
    output_ranks: ClassVar[Sequence[int]] = (2,)

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        self.config = files.table(CONFIG)
        info = files.program.methods.get(_METHOD)
        inputs = () if info is None else info.inputs
        outputs = () if info is None else info.outputs
        taken, given = (one[0] if len(one) == 1 else None for one in (inputs, outputs))
        if (
            not isinstance(taken, TensorInfo)
            or not isinstance(given, TensorInfo)
            or len(taken.shape) != self.input_rank
            or not taken.dtype.startswith("float")
            or len(given.shape) not in self.output_ranks
        ):
            told = " and returns ".join("; ".join(map(str, one)) for one in (inputs, outputs))
            raise InputError(
                f"{files.program.name} is not a program for {self.name}: it takes {told}"
            )
        self.output = given
        self._bounds, self._dtype = taken.bounds, np.dtype(taken.dtype)

    @abstractmethod
    async def prepare(self, given: Any) -> Array:
        """Return the array of one picture or sound, as the model's files say."""

    async def run(self, given: Sequence[Any]) -> list[Array]:
        """Return the program's output for each picture or sound."""
        prepared = [self._checked(await self.prepare(one)) for one in given]
        fewest, most = self._bounds[0]
        found: list[Array] = []
        for start in range(0, len(prepared), most):
            group = prepared[start : start + most]
            filled = group + group[:1] * (fewest - len(group))
            (output,) = await self.program.run(_METHOD, np.stack(filled))
            if not np.isfinite(output).all():  # scores of it would be arbitrary
                raise ExecutionError(f"{self.program.name} returned NaN or infinities")
            found += [row.astype(np.float32, copy=False) for row in output[: len(group)]]
        return found

    def _checked(self, made: Array) -> Array:
        sizes = zip(made.shape, self._bounds[1:], strict=True)
        if not all(low <= size <= high for size, (low, high) in sizes):
            wanted = [high for _, high in self._bounds[1:]]
            raise InputError(
                f"{PREPROCESSOR} makes arrays of {list(made.shape)}, but {self.program.name} takes "
                f"{wanted}: they do not belong together"
            )
        return made.astype(self._dtype, copy=False)
