"""Finds the task of a model by the words in its files: WORDS has a row for each task."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from webpte.engine.files.json_reader import parse_table
from webpte.engine.files.manifest import read_manifest
from webpte.engine.open.manifest_files import is_manifest
from webpte.engine.open.siblings import read_file, read_sibling
from webpte.errors import InputError, ManifestError
from webpte.hub.layouts import ChosenProgram, words_of
from webpte.tasks.files import CONFIG
from webpte.tasks.picture_families import task_by_names

# By task: capabilities that software-mansion's config.json names, names of pipelines that have
# another name here, ends of the names of transformers' classes, and types of models.
WORDS: dict[str, tuple[str, ...]] = {
    "text-generation": ("chat", "llm", "language-model", "ForCausalLM"),
    "image-text-to-text": (
        *("vlm", "visual-question-answering", "ForImageTextToText"),
        *("smolvlm", "idefics3", "llava", "qwen2_vl", "qwen2_5_vl"),
    ),
    "automatic-speech-recognition": ("speech-to-text", "asr", "ForSpeechSeq2Seq", "whisper"),
    "text-to-speech": ("text-to-audio", "tts", "vits"),
    "voice-activity-detection": ("vad",),
    "audio-classification": ("ForAudioClassification",),
    "image-classification": ("classification", "ForImageClassification"),
    "object-detection": ("detection", "ForObjectDetection"),
    "image-segmentation": ("semantic-segmentation", "ForSemanticSegmentation"),
    "mask-generation": ("promptable-segmentation", "ForMaskGeneration", "sam", "sam2"),
    "background-removal": ("matting",),
    "depth-estimation": ("depth", "ForDepthEstimation"),
    "image-to-image": ("style-transfer", "super-resolution", "upscaling", "ForImageToImage"),
    "text-to-image": ("image-generation", "stable-diffusion", "StableDiffusionPipeline"),
    "image-feature-extraction": ("image-embedding",),
    "feature-extraction": ("text-embedding", "sentence-similarity", "embeddings"),
    "fill-mask": ("ForMaskedLM",),
    "text-classification": ("ForSequenceClassification",),
    "token-classification": ("ForTokenClassification",),
    "question-answering": ("ForQuestionAnswering",),
    "text2text-generation": ("t5", "bart", "pegasus"),
    "translation": ("marian", "m2m_100"),
    "reranking": ("text-ranking",),
}


def task_of(words: Collection[str], known: Collection[str]) -> str:
    """Return the task that the first understood word names; "" if there is none."""
    # A model that also sees has both words.
    both = {one.lower() for one in words}
    if "vision" in both and both & {"text-generation", "llm"}:
        return "image-text-to-text"
    for word in words:
        if word.lower() in known:
            return word.lower()
        for task, others in WORDS.items():
            classes = tuple(one for one in others if one.startswith("For"))
            if word.lower() in others or word.endswith(classes):
                return task
    return ""


async def detect(source: str | Path | ChosenProgram, known: Collection[str]) -> str:
    """Return the task of a model, by its program or manifest; InputError if nothing names it."""
    words: list[str] = []
    names = [str(source)]
    if isinstance(source, ChosenProgram):
        words += await source.words()
        names.append(source.path)
    else:
        if is_manifest(source):
            data, name = await read_file(source)
            words.append(read_manifest(data, name).task)
        if (config := await read_sibling(source, CONFIG)) is not None:
            words += words_of(parse_table(config, CONFIG, ManifestError, not_finite=True).content)
    found = task_of([one for one in words if one], known)
    if not found:
        found = task_by_names(names)  # of a published model whose files are silent
    if not found:
        raise InputError(
            f"{source}: its files do not say what it does: name the task, "
            "webpte.tasks.open(TASK, ...), or load it as a program"
        )
    return found
