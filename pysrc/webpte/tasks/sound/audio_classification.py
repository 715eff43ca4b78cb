"""audio-classification: labels for a sound."""

from __future__ import annotations

from typing import Any

import numpy as np

from webpte.tasks.array_task import ArrayTask
from webpte.tasks.files import PREPROCESSOR, ModelFiles
from webpte.tasks.form import SOUND, TaskForm
from webpte.tasks.scores import best, function_of, labels_of
from webpte.tasks.sound.kaldi_spectrogram import RATE, KaldiSpectrogram
from webpte.tasks.sound.samples import samples_of
from webpte.tasks.task import task


@task("audio-classification", form=TaskForm(SOUND, fixed={"top_k": 10}))
class AudioClassification(ArrayTask):
    """Classifies sounds, by models that read a spectrogram (AST).

    await task(samples)       # [{"score": 0.9, "label": "Speech"}, ...]
    """

    input_rank = 3

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        self.labels = labels_of(self.config, self.outputs[0].shape[-1])
        self._spectrogram = KaldiSpectrogram(files.table(PREPROCESSOR))

    async def __call__(
        self, inputs: Any, *, top_k: int | None = None, function_to_apply: str = "softmax"
    ) -> Any:
        """Return labels with scores, the best first; all labels if `top_k` is None.

        inputs   samples (count,) of floats, 16,000 a second, or {"array" (or "raw"),
                 "sampling_rate"} of any rate, or a list
        """
        many = isinstance(inputs, list | tuple)
        function = function_of(function_to_apply, self.config, len(self.labels))
        rows = await self.run(inputs if many else [inputs])
        found = [best(self.labels, function(row), top_k) for (row,) in rows]
        return found if many else found[0]

    async def prepare(self, given: Any) -> np.ndarray:
        return self._spectrogram(samples_of(given, RATE))
