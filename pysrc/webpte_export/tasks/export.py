"""`export_task`: turns a folder of Hugging Face into a folder for `webpte.tasks`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from webpte_export.errors import ExportError
from webpte_export.exporter import Clock, export, export_methods
from webpte_export.exporter_patches import hide_broken_torchvision
from webpte_export.failures import telling_failures
from webpte_export.llm.export import export_llm
from webpte_export.llm.seq2seq import is_encoder_decoder
from webpte_export.lowering import quiet_logs
from webpte_export.manifest_writer import add_task
from webpte_export.quantize import quantize_weights
from webpte_export.report import Report
from webpte_export.suite_writer import Tolerance
from webpte_export.tasks.letters import SECONDS, VOCABULARY, is_ctc, letters_tokenizer
from webpte_export.tasks.picture_size import settle_size

PROGRAM = "model.pte"
_TOKENIZER, _PREPROCESSOR = "tokenizer.json", "preprocessor_config.json"
_HEARING = "automatic-speech-recognition"
# Tasks of encoder-decoder models, and the files that they need.
_ANSWERING = {
    "text2text-generation": (_TOKENIZER,),
    "summarization": (_TOKENIZER,),
    "translation": (_TOKENIZER,),
    _HEARING: (_TOKENIZER, _PREPROCESSOR, "generation_config.json"),
}
_SEEING, _WRITING = "image-text-to-text", "text-generation"
_COPIED = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "preprocessor_config.json",
    "vocab.json",
)
_VOICES, _VOICE_FILES = "text-to-speech", ("vocab.json", "tokenizer_config.json")
_TOLERANCE, _HALF_TOLERANCE = (1e-3, 1e-3), (2e-2, 2e-2)


@telling_failures(lambda given: Path(given["out"]) / PROGRAM)
def export_task(
    folder: str | Path,
    out: str | Path,
    task: str,
    *,
    quantize: str | None = None,
    half: bool = False,
    max_length: int | None = None,
    calibrate: str | Path | bool = False,
    keep_8w: int = 0,
) -> Report:
    """Export a model for `webpte.tasks.open(task, OUT)`, and check it against PyTorch.

    folder      from Hugging Face: config.json, weights, and a tokenizer.json (texts) or a
                preprocessor_config.json (pictures and sounds); both, and generation_config.json,
                for automatic-speech-recognition, or vocab.json for models that hear letters
                (wav2vec 2.0)
    out         the folder to write: model.pte with its manifest, which names the task, suite and
                report, and copies of the files for preparing inputs and naming labels
    max_length  tokens of a text; by default the model's limit, at most 512; for a conversation at
                most 2048 (text-generation) or 4096 (image-text-to-text); of models that hear
                letters the seconds of a call, 10
    calibrate, keep_8w  for text-generation, as in `export_llm`
    """
    calibration: dict[str, Any] = {}
    if calibrate or keep_8w:
        if task != _WRITING:
            raise ExportError(f"models for {task} are not calibrated; those for {_WRITING} are.")
        calibration = {"calibrate": calibrate, "keep_8w": keep_8w}
    report = _export(Path(folder), Path(out), task, quantize, half, max_length, calibration)
    add_task(report.program, task)
    return report


def _export(
    folder: Path,
    out: Path,
    task: str,
    quantize: str | None,
    half: bool,
    max_length: int | None,
    calibration: dict[str, Any],
) -> Report:
    """Export a model in the form of its task; see `export_task`."""
    if not (folder / "config.json").is_file():
        raise ExportError(f"{folder} has no config.json: it is not a model of Hugging Face.")
    hide_broken_torchvision()
    hears_letters = task == _HEARING and is_ctc(_read(folder / "config.json"))
    if task in _ANSWERING and not hears_letters:
        if not is_encoder_decoder(folder):
            raise ExportError(f"{folder} is not a model for {task}: it is no encoder-decoder.")
        _check_files(folder, task, _ANSWERING[task])
        return export_llm(folder, out / PROGRAM, quantize=quantize, half=half)
    if task == _WRITING:
        if is_encoder_decoder(folder):
            raise ExportError(f"{folder} is not a model for {task}: it is an encoder-decoder.")
        _check_files(folder, task, (_TOKENIZER,))
        return export_llm(
            *(folder, out / PROGRAM),
            quantize=quantize,
            max_context=max_length,
            half=half,
            **calibration,
        )
    from webpte_export.tasks.heads import ArrayModel, PictureModel, read_module
    from webpte_export.tasks.parts import PARTS

    if task == _SEEING:
        from webpte_export.tasks.image_text import export_image_text

        return export_image_text(
            *(folder, out / PROGRAM), quantize=quantize, max_context=max_length, half=half
        )
    if task in PARTS or task == _VOICES:
        return _export_parts(folder, out, task, quantize, half, max_length)
    module = read_module(folder, task, (*_ANSWERING, *PARTS, _SEEING, _WRITING, _VOICES))
    arrays = isinstance(module, ArrayModel)
    _check_files(folder, task, (_PREPROCESSOR if arrays else _TOKENIZER,))
    changed: dict[str, Any] = {}
    if hears_letters:
        changed[_TOKENIZER] = _letters(folder, task)
        rate = int(_read(folder / _PREPROCESSOR).get("sampling_rate", 16_000))
        made = _array_calls(module, (rate * (max_length or SECONDS),))
    elif isinstance(module, PictureModel):
        own = getattr(module.model.config, "image_size", None)
        changed[_PREPROCESSOR], size = settle_size(_read(folder / _PREPROCESSOR), folder, own)
        made = _picture_calls(module, size)
    else:
        made = _sound_calls(module, folder) if arrays else _text_calls(module, folder, max_length)
    copied = _copy_files(folder, out, changed)
    return export(
        module,
        path=out / PROGRAM,
        quantize=quantize,
        half=half,
        tolerance=_HALF_TOLERANCE if half else _TOLERANCE,
        beside=copied,
        **made,
    )


def _export_parts(
    folder: Path, out: Path, task: str, quantize: str | None, half: bool, max_length: int | None
) -> Report:
    """Export a model as a program of several methods."""
    import torch

    from webpte_export.tasks.heads import read_model
    from webpte_export.tasks.parts import PARTS
    from webpte_export.tasks.voices import READER, split_vits

    clock, parts = Clock(), PARTS.get(task)
    _check_files(folder, task, _VOICE_FILES if parts is None else parts.needed)
    model = read_model(folder, task, READER if parts is None else parts.reader)
    changed: dict[str, Any] = {}
    if parts is not None:
        changed[_PREPROCESSOR], size = settle_size(_read(folder / _PREPROCESSOR), folder)
    clock.lap("reading")
    constants: dict[str, Any] = {}
    with torch.no_grad(), quiet_logs():
        if quantize is not None and not quantize_weights(model, quantize):
            raise ExportError(
                f"quantize={quantize!r} quantizes linear layers, but the model has none that fits; "
                "omit it."
            )
        if parts is None:
            methods = split_vits(model, max_length)
        else:
            methods, constants = parts.split(model, size)
    copied = _copy_files(folder, out, changed)
    clock.lap("quantization")
    return export_methods(
        methods,
        out / PROGRAM,
        metadata=constants,
        tolerance=Tolerance(*(_HALF_TOLERANCE if half else _TOLERANCE)),
        quantize=quantize,
        half=half,
        strict=False,
        clock=clock,
        beside=copied,
    )


def _check_files(folder: Path, task: str, needed: Iterable[str]) -> None:
    """Raise ExportError for a missing file."""
    for name in needed:
        if not (folder / name).is_file():
            raise ExportError(
                f"{folder} has no {name}, which {task} needs; copy it from the model's page, or "
                "let transformers write it (save_pretrained)."
            )


def _copy_files(folder: Path, out: Path, changed: Mapping[str, Any]) -> list[str]:
    """Copy the task's files into a folder, some of them changed; return the names of the files."""
    out.mkdir(parents=True, exist_ok=True)
    copied = [name for name in _COPIED if name in changed or (folder / name).is_file()]
    for name in copied:
        if name in changed and not _has(folder / name, changed[name]):
            text = json.dumps(changed[name], indent=1, ensure_ascii=False)
            (out / name).write_text(text + "\n", encoding="utf-8")
        elif (folder / name).resolve() != (out / name).resolve():
            shutil.copyfile(folder / name, out / name)
    return copied


def _has(path: Path, content: Any) -> bool:
    return path.is_file() and _read(path) == content


def _letters(folder: Path, task: str) -> dict[str, Any]:
    """Return the tokenizer.json of a model that hears letters."""
    _check_files(folder, task, (VOCABULARY,))
    settings = folder / "tokenizer_config.json"
    config = _read(settings) if settings.is_file() else {}
    return letters_tokenizer(_read(folder / VOCABULARY), config)


def _text_calls(module: Any, folder: Path, max_length: int | None) -> dict[str, Any]:
    """Return calls of a few sizes; texts and their lengths are dynamic."""
    import torch

    from webpte_export.tasks.heads import LONGEST, MAX_TEXTS

    config = module.model.config
    longest = getattr(config, "max_position_embeddings", LONGEST) - (module.first_position or 0)
    settings = folder / "tokenizer_config.json"
    if settings.is_file():
        stated = _read(settings).get("model_max_length")
        longest = min(longest, stated) if isinstance(stated, int | float) else longest
    length = int(min(longest, max_length or LONGEST))
    if length < 4:
        raise ExportError(f"a text of {length} tokens is too short to export.")
    numbers = torch.Generator().manual_seed(0)

    def call(texts: int, tokens: int) -> tuple[Any, ...]:
        shape = (texts, tokens)
        mask = torch.ones(shape, dtype=torch.int64)
        mask[-1, tokens - tokens // 3 :] = 0
        ids = torch.randint(0, config.vocab_size, shape, generator=numbers)
        types = torch.randint(0, 2, shape, generator=numbers)
        return (ids, mask, types) if module.has_types else (ids, mask)

    sizes = {
        0: torch.export.Dim("texts", max=MAX_TEXTS),
        1: torch.export.Dim("length", max=length),
    }
    return {
        "inputs": call(3, min(length, 11)),
        "more_inputs": [call(1, min(length, 7)), call(2, 1), call(1, length)],
        "dynamic_shapes": (sizes,) * (3 if module.has_types else 2),
    }


def _read(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ExportError(f"{path} has no table of settings.")
    return found


def _sound_calls(module: Any, folder: Path) -> dict[str, Any]:
    """Return calls with a single spectrogram and with several."""
    config = module.model.config
    if config.model_type != "audio-spectrogram-transformer":
        raise ExportError(
            f"{folder} is a {config.model_type}; of models of sounds, only those of "
            "spectrograms (audio-spectrogram-transformer) can be exported."
        )
    return _array_calls(module, (config.max_length, config.num_mel_bins))


def _picture_calls(module: Any, size: tuple[int, int]) -> dict[str, Any]:
    """Return calls with a single picture and, if the module takes them, with several."""
    return _array_calls(module, (getattr(module.model.config, "num_channels", 3), *size))


def _array_calls(module: Any, sizes: tuple[int, ...]) -> dict[str, Any]:
    import torch

    numbers = torch.Generator().manual_seed(0)

    def call(count: int) -> tuple[Any, ...]:
        return (torch.randn(count, *sizes, generator=numbers),)

    if module.most == 1:
        return {"inputs": call(1), "more_inputs": [call(1)]}
    batch = {0: torch.export.Dim("batch", max=module.most)}
    return {"inputs": call(2), "more_inputs": [call(1)], "dynamic_shapes": (batch,)}
