"""Prepares pictures for a program, on its GPU if that is faster, else in NumPy.

Pictures of prompts are prepared when a model is about to read them. A conversation keeps their
bytes. A picture is prepared again only if its rows are no longer in the KV cache: after a lost
device, or after another conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from webpte.engine.call.call import Lifetime
from webpte.engine.call.gpu_tensor import WORD_BYTES, GpuTensor, join_rows, upload, with_shape
from webpte.engine.dtypes import DTYPES
from webpte.engine.open.threads import in_thread
from webpte.engine.shapes import numel
from webpte.errors import OutOfMemoryError
from webpte.program import Program, build_of
from webpte.tasks.vision.scaling.gpu_scaler import GpuScaler, fits
from webpte.tasks.vision.scaling.steps import PictureSteps, prepare_on_host

Array = np.ndarray
Prepared = Array | GpuTensor

NUMPY = "numpy"
WEBGPU = "webgpu"  # a browser's device; its NumPy is slower than WebGPU in software
# Products of pixels and weights from which a GPU is faster, including its calls.
LEAST_WORK = 1 << 20


class PicturePreparer:
    """Prepares the pictures of a program; its GPU memory is freed with the program's.

    on_gpu   whether to prepare pictures on the program's GPU; None: if that is faster
    """

    def __init__(self, program: Program, on_gpu: bool | None = None) -> None:
        self.program, self.on_gpu = program, on_gpu
        self._scaler: tuple[Lifetime, GpuScaler] | None = None  # and its last use

    async def __call__(
        self, steps: PictureSteps, pixels: Array, dtype: str = "float32"
    ) -> Sequence[Prepared]:
        """Return the parts of a picture (height, width, 3), each (3, rows, columns)."""
        if self.uses_gpu(steps):
            try:
                return await self._on_gpu().run(steps, pixels, dtype)
            except OutOfMemoryError:
                pass  # GPU memory, which the model alone can then use
        wanted = DTYPES[dtype].numpy
        parts = await in_thread(prepare_on_host, steps, pixels)
        return [part.astype(wanted, copy=False) for part in parts]

    def uses_gpu(self, steps: PictureSteps) -> bool:
        """Return whether pictures with these steps are prepared on the GPU."""
        info = self.program.device_info
        if info.kind == NUMPY or not fits(steps, info):
            return False
        if self.on_gpu is not None:
            return self.on_gpu
        is_quicker = info.kind == WEBGPU or not info.software
        return is_quicker and steps.work >= LEAST_WORK

    def _on_gpu(self) -> GpuScaler:
        lifetime = build_of(self.program).lifetime
        lifetime.check()
        if self._scaler is None or self._scaler[0] is not lifetime:
            made = GpuScaler(self.program.device)
            lifetime.hold(made.close)
            self._scaler = lifetime, made
        return self._scaler[1]


async def batch_of(prepared: Sequence[Prepared], program: Program) -> Prepared:
    """Return arrays or tensors of the same shape and dtype as a batch.

    The batch is on the GPU if any member is; a single tensor is not moved.
    """
    shape = len(prepared), *prepared[0].shape
    if not any(isinstance(one, GpuTensor) for one in prepared):
        return np.stack([one for one in prepared if isinstance(one, np.ndarray)])
    dtype = DTYPES[str(prepared[0].dtype)]
    tensors = [
        one if isinstance(one, GpuTensor) else await upload(program.device, one, dtype, "a picture")
        for one in prepared
    ]
    if len(tensors) == 1:
        return with_shape(tensors[0], shape)
    width = numel(shape[1:])
    if width * tensors[0].stored_dtype.itemsize % WORD_BYTES:
        return np.stack([await one.numpy() for one in tensors])  # the GPU copies whole words
    rows = [(with_shape(one, (1, 1, width)), 0, 1) for one in tensors]
    return with_shape(await join_rows(rows), shape)


class LateTiles:
    """The tiles of a picture, prepared together when the first tile is needed."""

    def __init__(self, preparer: PicturePreparer, steps: PictureSteps, pixels: Array) -> None:
        self._preparer, self._steps, self._pixels = preparer, steps, pixels
        self._made: Sequence[Prepared] | None = None
        self._making = asyncio.Lock()
        digest = steps.digest(pixels)
        shape = steps.shape if steps.patches is not None else (1, *steps.shape)
        self.tiles = tuple(
            LateTile(self, index, shape, digest) for index in range(len(steps.parts))
        )

    async def prepared(self) -> Sequence[Prepared]:
        """Return all tiles, each (3, height, width) of float32."""
        async with self._making:
            if self._made is None:
                self._made = await self._preparer(self._steps, self._pixels)
            return self._made

    def free(self) -> None:
        """Free the prepared tiles; the next call prepares them again."""
        made, self._made = self._made, None
        for one in made or ():
            if isinstance(one, GpuTensor):
                one.destroy()


class LateTile:
    """A tile for a vision encoder; see `webpte.llm.picture_session.LatePixels`."""

    dtype = np.dtype(np.float32)

    def __init__(self, tiles: LateTiles, index: int, shape: tuple[int, ...], digest: bytes) -> None:
        self._tiles, self._index = tiles, index
        self.shape = shape
        self.key = digest + index.to_bytes(4, "little")

    async def pixels(self) -> Prepared:
        made = (await self._tiles.prepared())[self._index]
        if isinstance(made, GpuTensor):
            return with_shape(made, self.shape)
        return made.reshape(self.shape)

    def free(self) -> None:
        self._tiles.free()
