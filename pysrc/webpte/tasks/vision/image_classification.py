"""image-classification: labels for a picture."""

from __future__ import annotations

from typing import Any

from webpte.tasks.files import ModelFiles
from webpte.tasks.form import PICTURE, TaskForm
from webpte.tasks.scores import best, function_name, function_of, labels_of
from webpte.tasks.task import task
from webpte.tasks.vision.pictures import PictureTask


@task("image-classification", form=TaskForm(PICTURE, fixed={"top_k": 10}))
class ImageClassification(PictureTask):
    """Classifies pictures.

    await task(picture)       # [{"label": "cat", "score": 0.9}, ...], the five best
    """

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        self.labels = labels_of(self.config, self.outputs[0].shape[-1])

    def result(self) -> dict[str, Any]:
        named = function_name(None, self.config, len(self.labels))
        return {"kind": "scores", "labels": self.labels, "function": named}

    async def __call__(
        self, inputs: Any, *, top_k: int | None = 5, function_to_apply: str | None = None
    ) -> Any:
        """Return labels with scores, the best first; for a list of pictures, a list for each."""
        many = isinstance(inputs, list | tuple)
        function = function_of(function_to_apply, self.config, len(self.labels))
        rows = await self.run(inputs if many else [inputs])
        found = [best(self.labels, function(row), top_k) for (row,) in rows]
        return found if many else found[0]
