"""Exports encoder-decoder models: a program with the methods `encoder` and `text_decoder`.

    encoder(input) -> keys and values of the input for each layer of the decoder
    text_decoder(tokens, input_pos, *those) -> logits of the last token

The names of methods and constants agree with ExecuTorch's runners. There, `encoder` returns hidden
states, from which every step computes keys and values again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from webpte.engine.files.json_reader import Table
from webpte_export.errors import ExportError
from webpte_export.exporter import Clock, PreparedMethod, export_methods, program_path
from webpte_export.llm.huggingface import json_table, token_ids
from webpte_export.llm.source import context_note
from webpte_export.lowering import quiet_logs
from webpte_export.quantize import quantize_weights
from webpte_export.report import Report
from webpte_export.suite_writer import Tolerance

BESIDE = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "preprocessor_config.json",
)
_TOLERANCE = Tolerance(5e-3, 1e-3)  # logits are around ten
_HALF_TOLERANCE = Tolerance(0.2, 5e-2)
_LONGEST = 2048  # tokens of an input for a model without a limit: 512 of them
_USUAL_LENGTH = 512
# Sounds given as samples (Moonshine): samples per frame, and additional samples of the first frame,
# by the strides and sizes of the convolutions; at most 30 seconds.
_FRAME_SAMPLES, _FIRST_SAMPLES = 384, 511
_LEAST_FRAMES, _MOST_FRAMES = 4, 1248


def is_encoder_decoder(source: str | Path) -> bool:
    """Return whether a folder holds an encoder-decoder model, by its config.json."""
    config = Path(source) / "config.json"
    return config.is_file() and json_table(config).content.get("is_encoder_decoder") is True


def export_seq2seq(
    source: str | Path,
    path: str | Path,
    *,
    quantize: str | None,
    max_context: int | None,
    max_chunk: int,
    half: bool,
) -> Report:
    """Export an encoder-decoder model of a folder; the arguments agree with `export_llm`.

    `max_context` and `max_chunk` limit the decoder; the encoder takes inputs up to the model's
    limit. Files of the tokenizer and the settings are copied next to the program.
    """
    from webpte_export.llm.other_models import load_model

    clock, folder, program = Clock(), Path(source), program_path(path)
    model = load_model(folder, "AutoModelForSpeechSeq2Seq", "AutoModelForSeq2SeqLM")
    clock.lap("reading")
    program.parent.mkdir(parents=True, exist_ok=True)
    beside = [name for name in BESIDE if (folder / name).is_file()]
    for name in beside:
        if not (program.parent / name).exists() or not (program.parent / name).samefile(
            folder / name
        ):
            shutil.copyfile(folder / name, program.parent / name)
    context = min(max_context or _LONGEST, _target_length(model))
    return export_model(
        model,
        program,
        quantize=quantize,
        context=context,
        chunk=max_chunk,
        half=half,
        clock=clock,
        beside=beside,
        notes=context_note(max_context, context),
        settings=[
            json_table(folder / f"{name}.json", needed=False)
            for name in ("generation_config", "config")
        ],
    )


def export_model(
    model: Any,
    program: Path,
    *,
    quantize: str | None = None,
    context: int,
    chunk: int = 64,
    half: bool = False,
    clock: Clock | None = None,
    beside: Iterable[str] = (),
    notes: Mapping[str, str] | None = None,
    settings: Iterable[Table] = (),
) -> Report:
    """Export a loaded model; earlier files of `settings` win over later files."""
    from webpte_export.llm.encoder_decoder import split_model
    from webpte_export.llm.simplify_graph import rewritten

    clock, chunk, source = clock or Clock(), min(chunk, context), _source_length(model)
    tables = list(settings)
    with quiet_logs():
        inputs, never = _inputs(model, source), _never_generated(tables)
        encoder, decoder = split_model(model, inputs[0], context, source, never)
        if quantize is not None:
            _quantize(model, quantize)
    clock.lap("quantization")
    calls, encoded = _decoder_calls(encoder, decoder, inputs, chunk)
    lengths, count = _lengths(model, inputs[0], source, chunk), len(encoded)
    shared = ({1: lengths["tokens"]}, {0: 1}, ({2: lengths["source"]},) * count)
    methods = {
        "encoder": PreparedMethod(
            encoder,
            [(one,) for one in inputs],
            None if lengths["input"] is None else ({1: lengths["input"]},),
            rewritten,
        ),
        "text_decoder": PreparedMethod(decoder, calls, shared, rewritten),
    }
    return export_methods(
        methods,
        program,
        metadata=metadata(model, context, chunk, source, tables),
        tolerance=_HALF_TOLERANCE if half else _TOLERANCE,
        quantize=quantize,
        half=half,
        strict=False,
        clock=clock,
        beside=tuple(beside),
        extra=notes,
    )


def metadata(
    model: Any, context: int, chunk: int, source: int, settings: list[Table]
) -> dict[str, Any]:
    """Return the program's constant methods, by the names of ExecuTorch's runners."""
    config = model.config
    found: dict[str, Any] = {
        "get_max_seq_len": chunk,
        "get_max_context_len": context,
        "max_hidden_seq_length": source,
        "get_vocab_size": config.vocab_size,
        "decoder_start_token_id": config.decoder_start_token_id,
        "use_kv_cache": True,
        "enable_dynamic_shape": True,
    }
    lists = {
        "get_eos_ids": token_ids("eos_token_id", *settings),
        "forced_bos_token_id": token_ids("forced_bos_token_id", *settings),
        "begin_suppress_tokens": token_ids("begin_suppress_tokens", *settings),
    }
    return found | {name: list(tokens) for name, tokens in lists.items() if tokens}


def _never_generated(settings: list[Table]) -> list[int]:
    """Return the tokens that are never generated: noises, or MarianMT's padding."""
    found = [table.content.get("bad_words_ids") for table in settings]
    words: list[list[int]] = next((words for words in found if words), [])
    single = [word[0] for word in words if len(word) == 1]
    return sorted({*token_ids("suppress_tokens", *settings), *single})


def _quantize(model: Any, how: str) -> None:
    """Quantize linear layers as requested, and the embedding to 8 bits."""
    import torch

    from webpte_export.llm.model import row_quantized_embedding

    with torch.no_grad():
        embedding = model.get_input_embeddings()
        if not quantize_weights(model, how):
            raise ExportError(
                f"quantize={how!r} quantizes linear layers, but {type(model).__name__} has none "
                "that fits; omit it."
            )
        if isinstance(embedding, torch.nn.Embedding):
            model.set_input_embeddings(row_quantized_embedding(embedding))


def _source_length(model: Any) -> int:
    """Return the number of positions that the encoder takes; for sounds, after its convolutions."""
    config = model.config
    if _takes_samples(model):
        return _MOST_FRAMES
    names = ("max_source_positions", "max_position_embeddings", "n_positions")
    return int(next((n for name in names if (n := getattr(config, name, None))), _USUAL_LENGTH))


def _target_length(model: Any) -> int:
    config = model.config
    names = ("max_target_positions", "max_position_embeddings")
    return int(next((n for name in names if (n := getattr(config, name, None))), _USUAL_LENGTH))


def _is_sound(model: Any) -> bool:
    return bool(model.main_input_name == "input_features")


def _takes_samples(model: Any) -> bool:
    """Return whether a model takes the samples of sounds, of any length."""
    return bool(model.main_input_name == "input_values")


def _inputs(model: Any, source: int) -> list[Any]:
    """Return inputs to compare: sounds of the only length, or texts of several lengths."""
    import torch

    generator = torch.Generator().manual_seed(0)
    if _takes_samples(model):
        counts = [_samples(frames) for frames in (20, _LEAST_FRAMES, 50)]
        if model._get_feat_extract_output_lengths(counts[0]) != 20:
            raise ExportError(f"{type(model).__name__} has convolutions that are not known.")
        return [torch.randn((1, count), generator=generator) * 0.1 for count in counts]
    if _is_sound(model):
        dims = (1, model.config.num_mel_bins, 2 * source)  # its convolutions halve the length
        return [torch.randn(dims, generator=generator) for _ in range(2)]
    most = model.config.vocab_size
    lengths = dict.fromkeys(min(n, source) for n in (7, 1, 20))
    return [torch.randint(0, most, (1, n), generator=generator) for n in lengths]


def _samples(frames: Any) -> Any:
    """Return the samples of a number of frames, an int or a dim."""
    return _FRAME_SAMPLES * frames + _FIRST_SAMPLES


def _lengths(model: Any, example: Any, source: int, chunk: int) -> dict[str, Any]:
    """Return the dims that change from call to call: of tokens, an input, and its encoding.

    A text has as many positions as its encoding; a sound has more samples.
    """
    from torch.export import Dim

    tokens = Dim("tokens", min=1, max=chunk) if chunk > 1 else None
    is_long = example.dim() == 2 and source > 1
    encoded = Dim("source", min=1, max=source) if is_long else None
    given = encoded
    if _takes_samples(model):
        given = _samples(Dim("frames", min=_LEAST_FRAMES, max=_MOST_FRAMES))
    return {"tokens": tokens, "input": given, "source": encoded}


def _decoder_calls(
    encoder: Any, decoder: Any, inputs: list[Any], chunk: int
) -> tuple[list[Any], Any]:
    """Return calls of the decoder: some tokens, with the encoding of each input."""
    import torch

    vocabulary, generator = decoder.model.config.vocab_size, torch.Generator().manual_seed(1)
    pieces = [(0, min(2, chunk)), (2, 1), (3, 1), (4, min(3, chunk))]
    calls, first = [], None
    with torch.no_grad():
        for given in inputs:
            encoded = encoder(given)
            first = encoded if first is None else first
            for place, count in pieces:
                if place + count <= decoder.context:
                    tokens = torch.randint(0, vocabulary, (1, count), generator=generator)
                    calls.append((tokens, torch.tensor([place]), encoded))
    return calls, first
