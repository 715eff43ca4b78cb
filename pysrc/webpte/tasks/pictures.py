"""Tasks of pictures: they are decoded, prepared as the model's files say, and run in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from webpte.errors import ExecutionError, InputError
from webpte.runtime.base.info import TensorInfo
from webpte.runtime.base.pictures import decode_picture
from webpte.tasks.files import CONFIG, PREPROCESSOR, ModelFiles
from webpte.tasks.preprocessing import Preprocessor
from webpte.tasks.task import Task

Array = np.ndarray
_METHOD = "forward"


class PictureTask(Task):
    """A task whose program takes pictures (pictures, 3, height, width).

    rank   the numbers of dims that its output may have
    """

    needed = (CONFIG, PREPROCESSOR)
    rank: Sequence[int] = (2,)

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        self.config = files.table(CONFIG)
        self._prepare = Preprocessor(files.table(PREPROCESSOR))
        info = files.program.methods.get(_METHOD)
        inputs = () if info is None else info.inputs
        outputs = () if info is None else info.outputs
        taken, given = (one[0] if len(one) == 1 else None for one in (inputs, outputs))
        if (
            not isinstance(taken, TensorInfo)
            or not isinstance(given, TensorInfo)
            or len(taken.shape) != 4
            or taken.shape[1] != 3
            or not taken.dtype.startswith("float")
            or len(given.shape) not in self.rank
        ):
            told = " and returns ".join("; ".join(map(str, one)) for one in (inputs, outputs))
            raise InputError(
                f"{files.program.name} is not a program for {self.name}: it takes {told}"
            )
        self.output = given
        self._bounds, self._dtype = taken.bounds, np.dtype(taken.dtype)

    async def run(self, given: Sequence[Any]) -> list[Array]:
        """Return the program's output for each picture."""
        prepared = [self._prepared(await picture_of(one)) for one in given]
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

    def _prepared(self, pixels: Array) -> Array:
        made = self._prepare(pixels).astype(self._dtype)
        for size, (low, high) in zip(made.shape, self._bounds[1:], strict=True):
            if not low <= size <= high:
                wanted = " by ".join(str(high) for _, high in self._bounds[2:])
                raise InputError(
                    f"{PREPROCESSOR} makes pictures of {made.shape[1]} by {made.shape[2]} pixels, "
                    f"but {self.program.name} takes {wanted}: they do not belong together"
                )
        return made


async def picture_of(given: Any) -> Array:
    """Return a picture as (height, width, 3) bytes.

    It may be an array (height, width) or (height, width, channels) of bytes, a picture of Pillow,
    or in the browser a URL, a Blob or the bytes of a file.
    """
    if hasattr(given, "convert") and hasattr(given, "__array_interface__"):  # Pillow's
        given = np.asarray(given.convert("RGB"))
    if not isinstance(given, np.ndarray):
        given = await decode_picture(given)
    pixels = given[:, :, None] if given.ndim == 2 else given
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4):
        raise InputError(
            "a picture is an array (height, width), or (height, width, channels) with 1, 3 or 4 "
            f"channels, of uint8; got {given.dtype} {list(given.shape)}"
        )
    if not pixels.size:
        raise InputError(f"a picture of {pixels.shape[1]} by {pixels.shape[0]} pixels is empty")
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels[:, :, :3]
