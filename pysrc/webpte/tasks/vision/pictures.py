"""Tasks of pictures, which are decoded, and prepared by the model's files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from webpte.engine.files.json_reader import Table
from webpte.errors import InputError, SourceError, UnsupportedError
from webpte.hub.model_schema import largest_input
from webpte.tasks.array_task import ArrayTask
from webpte.tasks.files import CONFIG, PREPROCESSOR, ModelFiles
from webpte.tasks.vision.picture_files import decode_picture
from webpte.tasks.vision.published import preparation_of
from webpte.tasks.vision.scaling.preparer import PicturePreparer, Prepared, batch_of
from webpte.tasks.vision.scaling.preprocessing import Preprocessor

Array = np.ndarray


class PictureTask(ArrayTask):
    """A task whose program takes pictures (pictures, 3, height, width).

    processors   names of the preprocessors that the task supports; empty: all
    published    the preparation that is known for the model's name
    """

    needed: ClassVar[Sequence[str]] = ()
    wanted: ClassVar[Sequence[str]] = (CONFIG, PREPROCESSOR)
    input_rank = 4
    processors: ClassVar[Sequence[str]] = ()

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        self.published = preparation_of(files)
        self.preprocessor = Preprocessor(self._settings(files))
        self.preparer = PicturePreparer(files.program)
        if self.processors and self.preprocessor.name not in self.processors:
            raise UnsupportedError(
                f"{PREPROCESSOR}: {self.name} knows models with an image_processor_type of "
                f"{', '.join(self.processors)}, not of {self.preprocessor.name}"
            )

    def _settings(self, files: ModelFiles) -> Table:
        """Return the content of preprocessor_config.json, or what stands in for it."""
        if PREPROCESSOR in files.settings:
            return files.table(PREPROCESSOR)
        return Table(self.default_settings(), "the preparation of pictures", InputError)

    def default_settings(self) -> dict[str, Any]:
        """Return the settings of a model without preprocessor_config.json.

        Raises SourceError for a model of no known family.
        """
        if self.published is None:
            raise SourceError(f"{self.files.where} has no {PREPROCESSOR}, which {self.name} needs")
        known = largest_input(self.program.methods, self.method, self.program.name)
        height, width = (known or [high for _, high in self.bounds])[2:]
        return self.published.settings(height, width)

    def compiled(self) -> dict[str, Any]:
        given = {
            "kind": "picture",
            "layout": "NCHW",
            "channels": self.bounds[1][1],
            "rule": self.preprocessor.rule.table_of_fields(),
        }
        outputs = list(range(len(self.outputs)))
        result = {**self.result(), "outputs": outputs}
        return {"name": self.name, "method": self.method, "input": given, "outputs": [result]}

    def result(self) -> dict[str, Any]:
        """Return how a result follows from outputs: a kind, and what belongs to it."""
        return super().compiled()

    async def prepare(self, given: Any) -> Prepared:
        pixels = await picture_of(given)
        steps = self.preprocessor.steps(*pixels.shape[:2])
        (made,) = await self.preparer(steps, pixels, str(self.dtype))
        return made

    async def batch(self, prepared: Sequence[Prepared]) -> Prepared:
        return await batch_of(prepared, self.program)

    async def answer_each(self, inputs: Any, answer: Callable[..., Any]) -> Any:
        """Return `answer(picture, *outputs)` for a picture; for a list, a list of answers."""
        many = isinstance(inputs, list | tuple)
        pictures = [await picture_of(one) for one in (inputs if many else [inputs])]
        rows = zip(pictures, await self.run(pictures), strict=True)
        found = [answer(picture, *outputs) for picture, outputs in rows]
        return found if many else found[0]


async def picture_of(given: Any) -> Array:
    """Return a picture as (height, width, 3) bytes.

    The picture may be an array (height, width) or (height, width, channels) of bytes, a picture of
    Pillow, or in the browser a URL, a Blob or the bytes of a file.
    """
    if hasattr(given, "convert") and hasattr(given, "__array_interface__"):  # a picture of Pillow
        given = np.asarray(given.convert("RGB"))
    if not isinstance(given, np.ndarray):
        given = await decode_picture(given)
    return checked_picture(given)


def checked_picture(given: Any) -> Array:
    """Return a picture, given as an array or by Pillow, as (height, width, 3) bytes."""
    given = np.asarray(given)
    pixels = given[:, :, None] if given.ndim == 2 else given
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4):
        raise InputError(
            "a picture is an array (height, width), or (height, width, channels) with 1, 3 or 4 "
            f"channels, of uint8; got {given.dtype} {list(given.shape)}"
        )
    if not pixels.size:
        raise InputError(f"a picture of {pixels.shape[1]} by {pixels.shape[0]} pixels is empty")
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels[:, :, :3]
