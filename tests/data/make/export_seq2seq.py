"""Exports small encoder-decoder models, with what transformers generates for some inputs.

    PYTHONPATH=pysrc:tests python -m data.make.export_seq2seq OUT.zip [FAMILY ...]

Run it in the export environment (docs/use/export.md). OUT.zip gets FAMILY.pte and FAMILY.npz:
inputs, the tokens of greedy answers, and the logits of each step; of Whisper, features and segments
of sounds. It raises if a program does not
give PyTorch's results.
"""

from __future__ import annotations

import io
import sys
import warnings
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from data.make.export_decoders import write_entry
from support.llm.small_seq2seq import RATE, SPOKEN, sound, whisper_settings

CONTEXT, CHUNK, NEW = 24, 8, 12
_PERIOD = 151  # of the weights
_SEEDS = {"whisper": 0}  # 4 for others: answers with several tokens
_SCALE = 3.0  # of the usual weights: else a token is followed by itself
_BART: dict[str, Any] = {
    "vocab_size": 41,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 32,
    "forced_eos_token_id": None,
}
_T5: dict[str, Any] = {
    "vocab_size": 41,
    "d_model": 16,
    "d_kv": 8,
    "num_heads": 2,
    "d_ff": 24,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "n_positions": 32,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16,
    "feed_forward_proj": "gated-gelu",
    "decoder_start_token_id": 0,
    "tie_word_embeddings": False,  # as in newer ones
}
_MARIAN = {**_BART, "pad_token_id": 40, "eos_token_id": 0, "decoder_start_token_id": 40}
_MARIAN |= {"scale_embedding": True, "activation_function": "swish"}
_WHISPER = {key: value for key, value in _BART.items() if "forced" not in key}
_WHISPER |= {"vocab_size": 80, "num_mel_bins": 8, "max_source_positions": 50}
_WHISPER |= {"max_target_positions": CONTEXT, "decoder_start_token_id": 21, "eos_token_id": 20}
_WHISPER |= {"pad_token_id": 20, "bos_token_id": 20}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "t5": ("T5ForConditionalGeneration", _T5),
    "bart": ("BartForConditionalGeneration", _BART),
    "marian": ("MarianMTModel", _MARIAN),
    "whisper": ("WhisperForConditionalGeneration", _WHISPER),
}
_GENERATION: dict[str, dict[str, Any]] = {
    "bart": {"forced_bos_token_id": 0},
    "marian": {"bad_words_ids": [[40]]},
    "whisper": whisper_settings()[1],
}
LENGTHS = (7, 1, 32)


def build(name: str) -> Any:
    """Build a model whose weights are large enough for answers that differ.

    They repeat themselves, so that a zip of the programs is small.
    """
    import torch
    import transformers

    stem, options = FAMILIES[name]
    kind = getattr(transformers, stem)
    torch.manual_seed(_SEEDS.get(name, 4))
    model = kind(kind.config_class(**options)).eval()
    for key, value in _GENERATION.get(name, {}).items():
        setattr(model.generation_config, key, value)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                scale = parameter[0].numel() ** -0.5
                parameter.copy_(_repeated(parameter.shape) * scale * _SCALE)
        embeddings = model.get_input_embeddings().weight
        embeddings.copy_(_repeated(embeddings.shape))
    return model


def _repeated(shape: Any) -> Any:
    import torch

    return torch.randn(_PERIOD).repeat(shape.numel() // _PERIOD + 1)[: shape.numel()].reshape(shape)


def expected(name: str) -> dict[str, np.ndarray]:
    """Return inputs, and what transformers generates for them, step by step."""
    import torch

    model, found = build(name), dict[str, np.ndarray]()
    generator = torch.Generator().manual_seed(5)
    for number, length in enumerate(LENGTHS):
        source = torch.randint(3, 40, (1, length), generator=generator)
        made = model.generate(
            source,
            max_new_tokens=NEW,
            do_sample=False,
            num_beams=1,
            output_logits=True,
            return_dict_in_generate=True,
        )
        found |= {
            f"source{number}": source[0].numpy(),
            f"tokens{number}": made.sequences[0].numpy(),
            f"logits{number}": torch.stack(made.logits)[:, 0].numpy(),
        }
    return found


def heard(name: str) -> dict[str, np.ndarray]:
    """Return features, and the segments that transformers finds in sounds."""
    import torch
    from transformers import WhisperFeatureExtractor

    extract = WhisperFeatureExtractor(**whisper_settings()[0])
    model, found = build(name), dict[str, np.ndarray]()
    first = model.generation_config.no_timestamps_token_id + 1
    for number, case in enumerate(SPOKEN):
        options = {} if case.seconds <= 1 else {"truncation": False, "padding": "longest"}
        given = extract(sound(case.seconds), sampling_rate=RATE, return_tensors="np", **options)
        features = given["input_features"]
        made = model.generate(
            torch.from_numpy(features),
            language=case.language,
            task="transcribe",
            return_timestamps=case.timestamps,
            return_segments=True,
        )
        segments = made["segments"][0]
        texts = [[int(token) for token in one["tokens"] if token < first] for one in segments]
        found |= {
            f"features{number}": features[0],
            f"starts{number}": np.array([float(one["start"]) for one in segments]),
            f"ends{number}": np.array([float(one["end"]) for one in segments]),
            f"lengths{number}": np.array([len(text) for text in texts]),
            f"texts{number}": np.array([token for text in texts for token in text]),
        }
    return found


def export(name: str, folder: Path) -> None:
    """Export one family; raise if its results are not PyTorch's."""
    from webpte_export.llm.huggingface import json_table
    from webpte_export.llm.seq2seq import export_model

    model = build(name)
    model.generation_config.save_pretrained(folder)
    model.config.save_pretrained(folder)
    settings = [json_table(folder / f"{kind}.json") for kind in ("generation_config", "config")]
    program = folder / f"{name}.pte"
    report = export_model(model, program, context=CONTEXT, chunk=CHUNK, settings=settings)
    if not report.passed:
        raise SystemExit(f"{name}: {report.problem or report.max_abs}")
    print(report.text(), flush=True)


def main(arguments: list[str]) -> None:
    warnings.simplefilter("ignore")
    from webpte_export.exporter_patches import patch_exporter

    patch_exporter()  # before transformers, which imports torchvision
    with zipfile.ZipFile(arguments[0], "w", zipfile.ZIP_LZMA) as packed:
        for name in arguments[1:] or FAMILIES:
            with TemporaryDirectory() as made:
                export(name, Path(made))
                data = io.BytesIO()
                np.savez(data, **(heard if name == "whisper" else expected)(name))  # type: ignore[arg-type]
                program = (Path(made) / f"{name}.pte").read_bytes()
            for file, content in ((f"{name}.pte", program), (f"{name}.npz", data.getvalue())):
                write_entry(packed, file, content)


if __name__ == "__main__":
    main(sys.argv[1:])
