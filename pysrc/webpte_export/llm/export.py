"""`export_llm`: turns a language model into a program with a KV cache, and its tokenizer files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from webpte_export.errors import ExportError
from webpte_export.exporter import (
    Clock,
    PreparedMethod,
    export_prepared,
    program_path,
)
from webpte_export.exporter_patches import patch_exporter
from webpte_export.failures import telling_failures
from webpte_export.layer_names import LayerNames, NamedLayer
from webpte_export.llm.calibration import (
    NEAREST,
    Parts,
    Rounding,
    choose_rounding,
    quantize_calibrated,
)
from webpte_export.llm.huggingface import llama_layer
from webpte_export.llm.read_source import read_source
from webpte_export.llm.seq2seq import export_seq2seq, is_encoder_decoder
from webpte_export.llm.source import Shape, Source, context_note
from webpte_export.lowering import quiet_logs
from webpte_export.quantize import QUANTIZATIONS, quantize_weights
from webpte_export.report import Report
from webpte_export.suite_writer import Tolerance

# From a source, its model and the tokens of a text to further methods, and to constant methods.
Training = Callable[[Source, Any, list[int]], tuple[dict[str, PreparedMethod], dict[str, str]]]

_TOLERANCE = Tolerance(5e-3, 1e-3)  # logits are around ten
_HALF_TOLERANCE = Tolerance(0.2, 5e-2)
_PARAGRAPH = """\
The lighthouse stood at the end of a long stone pier. Every evening the keeper walked out to it, \
carrying a lantern and a loaf of bread, and climbed the ninety-two steps to the lamp. In winter \
the spray froze on the railing, and he had to hold on with both hands. He did not mind. From the \
top he could see the ships coming home, one after another, and he knew most of them by name."""


@telling_failures(lambda given: program_path(given["path"]))
def export_llm(
    source: str | Path,
    path: str | Path,
    *,
    quantize: str | None = "8w",
    max_context: int | None = None,
    max_chunk: int = 512,
    half: bool = False,
    train: Training | None = None,
    calibrate: str | Path | bool = False,
    keep_8w: int = 0,
) -> Report:
    """Export a language model for webpte.llm: PATH.pte and its further files.

    source       a GGUF file, or a folder with config.json, *.safetensors and tokenizer.json
    path         writes PATH.pte; PATH.suite and PATH.report.json, as `export` does; tokenizer.json
                 and tokenizer_config.json (with the chat template) in the same folder
    quantize     None, "8w" (good), "4w" (small; for models of a billion parameters or more) or
                 "8da4w"
    max_context  tokens that the KV cache holds; by default the model's limit, at most 2048
    max_chunk    the most tokens per call
    half         f16 values on the GPU
    train        adds the method `learn`, which trains a LoRA in steps, of Llama-like models:
                 `webpte_export.training.prepare.lora_training(...)` makes it
    calibrate    for 4w and 8da4w: a text file, or True for the built-in text. Weights are rounded
                 (GPTQ) so that the model's results for this text change least; this takes minutes
    keep_8w      with `calibrate`: number of the most sensitive layers that get 8 bits instead of 4

    The program takes tokens (1, n) and input_pos (1,), returns logits (1, vocabulary) of the last
    token, and has the methods get_eos_ids, get_bos_id, get_max_context_len, get_vocab_size etc. An
    encoder-decoder model (T5, BART, MarianMT, Whisper) becomes a program with the methods `encoder`
    and `text_decoder`: see `webpte_export.llm.seq2seq`.
    """
    _check_arguments(quantize, max_context, max_chunk)
    rounding = choose_rounding(quantize, calibrate, keep_8w, _PARAGRAPH)
    if train is not None and (half or quantize == "8da4w"):
        raise ExportError(
            "a program that is trained computes in floats: leave out half, and choose 8w, 4w or "
            "none as the quantization."
        )
    if is_encoder_decoder(source):
        if train is not None:
            raise ExportError(f"{source} is an encoder-decoder model, which cannot be trained.")
        if rounding.text is not None:
            raise ExportError(f"{source} is an encoder-decoder model, which cannot be calibrated.")
        return export_seq2seq(
            *(source, path),
            quantize=quantize,
            max_context=max_context,
            max_chunk=max_chunk,
            half=half,
        )
    clock = Clock()
    patch_exporter()
    found = read_source(source)
    context = min(max_context or 2048, found.shape.max_context)
    found = replace(found, notes={**found.notes, **context_note(max_context, context)})
    clock.lap("reading")
    return export_source(
        found,
        program_path(path),
        quantize=quantize,
        context=context,
        chunk=max_chunk,
        half=half,
        clock=clock,
        train=train,
        rounding=rounding,
    )


def export_source(
    source: Source,
    program: Path,
    *,
    quantize: str | None,
    context: int,
    chunk: int,
    half: bool,
    clock: Clock,
    train: Training | None = None,
    rounding: Rounding = NEAREST,
) -> Report:
    """Export a loaded model; the arguments agree with `export_llm`."""
    from webpte_export.llm.simplify_graph import rewritten

    chunk = min(chunk, context)
    tokens = write_tokenizer(source, program.parent)
    with quiet_logs():
        model, extra = _model(source, context, chunk, quantize, tokens, rounding)
    chunk = min(chunk, getattr(model, "max_chunk", None) or chunk)
    before: dict[str, PreparedMethod] = {}
    facts = metadata(source, context, chunk)
    if train is not None:
        before, described = train(source, getattr(model, "model", None), tokens)
        facts |= described
    clock.lap("quantization")
    return export_prepared(
        model,
        _calls(tokens, chunk),
        program,
        dynamic_shapes=({1: _length(chunk)}, {0: 1}) if chunk > 1 else None,
        before=before,
        metadata=facts,
        tolerance=_HALF_TOLERANCE if half else _TOLERANCE,
        quantize=quantize,
        half=half,
        strict=False,  # gives the same graph faster
        clock=clock,
        rewrite=rewritten,
        extra={**source.notes, **extra},
        beside=("tokenizer.json", "tokenizer_config.json"),
        names=layer_names(source),
    )


def _check_arguments(quantize: str | None, max_context: int | None, max_chunk: int) -> None:
    if quantize is not None and quantize not in QUANTIZATIONS:
        known = ", ".join(QUANTIZATIONS)
        raise ExportError(f"quantize={quantize!r} is not known; there are {known}, or None.")
    if max_chunk < 2 or (max_context is not None and max_context < 2):
        raise ExportError("max_context and max_chunk must be 2 or more.")


def _model(
    source: Source,
    context: int,
    chunk: int,
    quantize: str | None,
    tokens: list[int],
    rounding: Rounding = NEAREST,
) -> tuple[Any, dict[str, Any]]:
    """Build the module to export, and facts about its quality for the report."""
    text = tokens[: min(chunk, context)]
    parts = (
        _llama(source, context, chunk) if source.model is None else _other(source, context, chunk)
    )
    extra: dict[str, Any] = {"perplexity_float32": parts.perplexity(text)}
    if quantize is None:
        return parts.module, extra
    pieces = rounding.pieces(source, parts.max_length)
    parts.prepare()
    if pieces:
        extra |= quantize_calibrated(parts, quantize, pieces, text, rounding.keep_8w)
    else:
        quantize_weights(parts.body, quantize)
        extra[f"perplexity_{quantize}"] = parts.perplexity(text)
    return parts.module, extra


def _llama(source: Source, context: int, chunk: int) -> Parts:
    from webpte_export.llm.model import all_logits, as_program, build, quantize_embedding

    model = build(source, context, chunk)
    return Parts(
        as_program(model),
        model,
        prepare=partial(quantize_embedding, model),
        logits=partial(all_logits, model),
        max_length=min(chunk, context),
    )


def _other(source: Source, context: int, chunk: int) -> Parts:
    import torch

    from webpte_export.llm.decoder import Decoder
    from webpte_export.llm.other_models import prepare_decoder

    decoder = Decoder(source.model, context).eval()

    def logits(text: Sequence[int]) -> Any:
        with torch.no_grad():
            return decoder.all_logits(torch.tensor([text]))[0]

    return Parts(
        decoder,
        decoder,
        prepare=partial(prepare_decoder, decoder),
        logits=logits,
        max_length=min(chunk, context, decoder.max_chunk or chunk),
    )


def layer_names(source: Source) -> LayerNames:
    """Return the library's names for the layers of the module."""
    shape = source.shape
    if isinstance(shape, Shape):
        return partial(llama_layer, shape)
    return partial(_other_layer, getattr(source.model, "scaled_layers", {}))


def _other_layer(scales: Mapping[str, float], name: str) -> NamedLayer | None:
    inner = name.removeprefix("model.")
    return NamedLayer(inner, scale=scales.get(inner, 1.0)) if inner != name else None


def _length(chunk: int) -> Any:
    from torch.export import Dim

    return Dim("length", min=1, max=chunk)


def _calls(tokens: list[int], chunk: int) -> list[Any]:
    """Return the calls to compare: a prompt, three single tokens, then a second prompt."""
    import torch

    first = min(7, chunk)
    second = min(5, chunk)
    places = [(0, first), *((first + n, 1) for n in range(3)), (first + 3, second)]
    ids = (tokens * (1 + sum(count for _, count in places) // len(tokens)))[:64]
    return [
        (torch.tensor([ids[place : place + count]]), torch.tensor([place]))
        for place, count in places
    ]


def metadata(source: Source, context: int, chunk: int) -> dict[str, Any]:
    """Return the program's constant methods, by the names of ExecuTorch's runners."""
    facts: dict[str, Any] = {
        "get_max_seq_len": chunk,
        "get_max_context_len": context,
        "get_n_layers": source.shape.layers,
        "get_vocab_size": source.shape.vocab_size,
        "use_kv_cache": True,
        "use_sdpa_with_kv_cache": True,
        "enable_dynamic_shape": True,
    }
    if source.eos:
        facts["get_eos_ids"] = list(source.eos)
    if source.bos is not None:
        facts["get_bos_id"] = source.bos
    return facts


def write_tokenizer(source: Source, folder: Path) -> list[int]:
    """Write tokenizer.json and tokenizer_config.json; return the tokens of the paragraph.

    The function checks that the tokenizers library reads them, and that the model knows every
    token.
    """
    from tokenizers import Tokenizer

    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        "tokenizer.json": source.tokenizer,
        "tokenizer_config.json": source.tokenizer_config,
    }
    for name, content in contents.items():
        text = json.dumps(content, ensure_ascii=False, indent=1)
        (folder / name).write_text(text + "\n", encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokens: list[int] = tokenizer.encode(_PARAGRAPH).ids
    if not tokens or max(tokens) >= source.shape.vocab_size:
        raise ExportError(
            f"{source.name}: the tokenizer gives tokens up to {max(tokens, default=0)}, but the "
            f"model knows {source.shape.vocab_size}: this is another model's tokenizer."
        )
    return tokens
