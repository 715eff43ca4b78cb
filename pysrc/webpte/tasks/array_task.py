"""Tasks whose program takes an array for each picture or sound, which are run in batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from webpte.engine.call.gpu_tensor import GpuTensor
from webpte.engine.call.info import TensorInfo
from webpte.errors import ExecutionError, InputError
from webpte.tasks.files import CONFIG, PREPROCESSOR, ModelFiles
from webpte.tasks.task import Task

Array = np.ndarray


class ArrayTask(Task):
    """A task of a program with a single input; the first dim of input and outputs is the batch.

    method       the program's method
    input_rank   the number of dims of its input, including the batch
    ranks        the allowed numbers of dims of each output
    """

    needed: ClassVar[Sequence[str]] = (CONFIG, PREPROCESSOR)
    method: str = "forward"
    input_rank: ClassVar[int] = 2
    ranks: Sequence[Sequence[int]] = ((2,),)

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        self.config = files.table(CONFIG)
        info = files.program.methods.get(self.method)
        inputs = () if info is None else info.inputs
        outputs = () if info is None else info.outputs
        taken = inputs[0] if len(inputs) == 1 else None
        given = [one for one in outputs if isinstance(one, TensorInfo)]
        if (
            not isinstance(taken, TensorInfo)
            or len(taken.shape) != self.input_rank
            or not taken.dtype.startswith("float")
            or not len(given) == len(outputs) == len(self.ranks)
            or any(
                len(one.shape) not in ranks for one, ranks in zip(given, self.ranks, strict=True)
            )
        ):
            told = " and returns ".join("; ".join(map(str, one)) for one in (inputs, outputs))
            raise InputError(
                f"{files.program.name} is not a program for {self.name}: it takes {told}"
            )
        self.outputs = given
        self.bounds, self.dtype = taken.bounds, np.dtype(taken.dtype)

    @abstractmethod
    async def prepare(self, given: Any) -> Any:
        """Return the array of a picture or sound, prepared by the model's files.

        An array that stays on the GPU is a GpuTensor in the program's dtype.
        """

    async def batch(self, prepared: Sequence[Any]) -> Any:
        """Return the program's input for some pictures or sounds."""
        return np.stack(prepared)

    async def run(self, given: Sequence[Any]) -> list[tuple[Array, ...]]:
        """Return the program's outputs for each picture or sound."""
        fewest, most = self.bounds[0]
        found: list[tuple[Array, ...]] = []
        for start in range(0, len(given), most):
            some = given[start : start + most]
            group = [self.checked(await self.prepare(one)) for one in some]
            filled = group + group[:1] * (fewest - len(group))
            outputs = await self.program.run(self.method, await self.batch(filled))
            if not all(np.isfinite(output).all() for output in outputs):
                # Results of such numbers would be arbitrary.
                raise ExecutionError(f"{self.program.name} returned NaN or infinities")
            rows = [output[: len(group)].astype(np.float32, copy=False) for output in outputs]
            found += zip(*rows, strict=True)
        return found

    def checked(self, made: Any) -> Any:
        """Return a prepared array in the program's dtype; raise InputError if it does not fit."""
        sizes = zip(made.shape, self.bounds[1:], strict=True)
        if not all(low <= size <= high for size, (low, high) in sizes):
            wanted = [high for _, high in self.bounds[1:]]
            raise InputError(
                f"{PREPROCESSOR} makes arrays of {list(made.shape)}, but {self.program.name} takes "
                f"{wanted}: they do not belong together"
            )
        return made if isinstance(made, GpuTensor) else made.astype(self.dtype, copy=False)
