"""Modules to export for each task: a model of transformers with plain tensors in and out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from webpte_export.errors import ExportError, error_text

MAX_TEXTS, MAX_ARRAYS = 8, 4  # per call
LONGEST = 512  # tokens of a text, if the model allows more
_MASKED = -1e9


class TextModel(nn.Module):
    """An encoder with a head, for tokens, their mask and, if the model has them, token types.

    Each input is (texts, length); `outputs` names the outputs.
    """

    def __init__(self, model: Any, outputs: Sequence[str]) -> None:
        super().__init__()
        self.model, self.outputs = model, tuple(outputs)
        embeddings = getattr(model.base_model, "embeddings", None)
        # RoBERTa counts positions from the padding token's number on.
        padding = getattr(embeddings, "padding_idx", None)
        self.first_position = None if padding is None else padding + 1
        self.has_types = getattr(model.config, "type_vocab_size", 0) > 1

    def forward(self, tokens: Tensor, mask: Tensor, types: Tensor | None = None) -> Any:
        found = self.called(self.model, tokens, mask, types)
        return tuple(found[name] for name in self.outputs)

    def called(self, model: Any, tokens: Tensor, mask: Tensor, types: Tensor | None) -> Any:
        """Call a model of transformers, or the encoder in one."""
        added = (1.0 - mask.to(torch.float32))[:, None, None, :] * _MASKED
        more: dict[str, Any] = {} if types is None else {"token_type_ids": types}
        if self.first_position is not None:
            places = torch.arange(tokens.shape[1], device=tokens.device) + self.first_position
            more["position_ids"] = places[None, :].expand(tokens.shape[0], -1)
        return model(input_ids=tokens, attention_mask=added, **more)


class AnswerModel(TextModel):
    """An encoder that finds starts and ends of answers: logits (texts, length, 2).

    Models of transformers split the logits in two, which ExecuTorch's partitioner cannot lower.
    """

    def forward(self, tokens: Tensor, mask: Tensor, types: Tensor | None = None) -> Any:
        hidden = self.called(self.model.base_model, tokens, mask, types)[0]
        return self.model.qa_outputs(hidden)


class ArrayModel(nn.Module):
    """A model with an array for each picture or sound, which `argument` names.

    most   the largest number of arrays per call
    """

    argument = ""
    most = MAX_ARRAYS

    def __init__(self, model: Any, outputs: Sequence[str]) -> None:
        super().__init__()
        self.model, self.outputs = model, tuple(outputs)

    def forward(self, values: Tensor) -> Any:
        found = self.model(**{self.argument: values})
        return tuple(found[name] for name in self.outputs)


class PictureModel(ArrayModel):
    """A model of pictures (pictures, channels, height, width)."""

    argument = "pixel_values"


class WholePictureModel(PictureModel):
    """A model with a result for every place of a picture, which takes a single picture per call.

    With a batch of any size, the model's interpolation could not be lowered.
    """

    most = 1


class SoundModel(ArrayModel):
    """A model of spectrograms (sounds, frames, bands)."""

    argument = "input_values"


class WaveModel(ArrayModel):
    """A model of samples (1, samples)."""

    argument = "input_values"
    most = 1


@dataclass(frozen=True)
class Head:
    """A task's row: the class of transformers that reads its models, and its outputs."""

    reader: str
    outputs: tuple[str, ...]
    module: Callable[[Any, Sequence[str]], nn.Module] = TextModel


_CLASSIFIER = Head("AutoModelForSequenceClassification", ("logits",))
HEADS = {
    "text-classification": _CLASSIFIER,
    "zero-shot-classification": _CLASSIFIER,
    "reranking": _CLASSIFIER,
    "token-classification": Head("AutoModelForTokenClassification", ("logits",)),
    "question-answering": Head("AutoModelForQuestionAnswering", (), AnswerModel),
    "fill-mask": Head("AutoModelForMaskedLM", ("logits",)),
    "feature-extraction": Head("AutoModel", ("last_hidden_state",)),
    "retrieval": Head("AutoModel", ("last_hidden_state",)),
    "image-classification": Head("AutoModelForImageClassification", ("logits",), PictureModel),
    "image-feature-extraction": Head("AutoModel", ("last_hidden_state",), PictureModel),
    "object-detection": Head(
        "AutoModelForObjectDetection", ("logits", "pred_boxes"), WholePictureModel
    ),
    "depth-estimation": Head(
        "AutoModelForDepthEstimation", ("predicted_depth",), WholePictureModel
    ),
    "image-segmentation": Head("AutoModelForSemanticSegmentation", ("logits",), WholePictureModel),
    "background-removal": Head("AutoModelForSemanticSegmentation", ("logits",), WholePictureModel),
    "image-to-image": Head("AutoModelForImageToImage", ("reconstruction",), WholePictureModel),
    "audio-classification": Head("AutoModelForAudioClassification", ("logits",), SoundModel),
    "automatic-speech-recognition": Head("AutoModelForCTC", ("logits",), WaveModel),
}


def read_module(folder: Path, task: str, others: Iterable[str] = ()) -> Any:
    """Read a folder's model as the module for a task; `others` are further files there."""
    if task not in HEADS:
        raise ExportError(
            f"there is no task {task!r}; there are {', '.join(dict.fromkeys((*HEADS, *others)))}."
        )
    head = HEADS[task]
    return head.module(read_model(folder, task, head.reader), head.outputs).eval()


def read_model(folder: Path, task: str, reader: str) -> Any:
    """Read the model of a folder with a class of transformers."""
    try:
        # Eager attention takes the given mask; other implementations build their own.
        model = getattr(transformers, reader).from_pretrained(
            folder, attn_implementation="eager", dtype=torch.float32, local_files_only=True
        )
    except (OSError, ValueError, KeyError) as error:
        raise ExportError(f"{folder} is not a model for {task}: {error_text(error)}") from error
    return model.eval()
