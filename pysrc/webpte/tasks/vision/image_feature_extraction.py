"""image-feature-extraction: vectors of a picture, for search and comparison."""

from __future__ import annotations

from typing import Any

from webpte.tasks.files import CONFIG, PREPROCESSOR
from webpte.tasks.form import PICTURE, TaskForm
from webpte.tasks.task import task
from webpte.tasks.vision.pictures import PictureTask


@task("image-feature-extraction", form=TaskForm(PICTURE))
class ImageFeatureExtraction(PictureTask):
    """Turns pictures into vectors.

    vectors = await task(picture)     # the program's output, for example (1, patches, width)
    """

    needed = (PREPROCESSOR,)
    wanted = (CONFIG,)
    ranks = ((2, 3, 4),)

    def result(self) -> dict[str, Any]:
        return {"kind": "vector"}

    async def __call__(self, inputs: Any) -> Any:
        """Return an array for a picture, with 1 as its first dim, or a list of arrays."""
        many = isinstance(inputs, list | tuple)
        rows = [row[None] for (row,) in await self.run(inputs if many else [inputs])]
        return rows if many else rows[0]
