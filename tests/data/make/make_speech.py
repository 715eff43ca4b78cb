"""Writes tests/data/speech: sounds at other rates by SciPy, and small random models of speech.

    PYTHONPATH=pysrc:tests python tests/data/make/make_speech.py [NAME ...]

NAME is resampled, voices, ears or letters.

What transformers says with a voice is kept with the noise that it drew. It needs the environment of
`serve.py export`, with SciPy.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.signal import resample_poly  # type: ignore[import-untyped]

from data.make.pack_folders import pack
from data.make.task_models import save, speller, transformers
from support.harness.sounds import (
    DATA,
    EARS,
    HEARD,
    HEARD_LETTERS,
    HEARD_TOKENS,
    LETTERS,
    RESAMPLED,
    RESAMPLED_RATES,
    SAID,
    SPELLED_TEXTS,
    SPELLER_FILES,
    SPOKEN,
    VOICES,
    make_wave,
)
from support.llm.small_seq2seq import RATE, sound, write_files
from webpte_export.tasks import export_task


def resampled() -> None:
    """Write sounds at other rates."""
    found: dict[str, Any] = {}
    for old, new in RESAMPLED_RATES:
        common = math.gcd(old, new)
        for count in (1, 613):
            wave = make_wave(count).astype(np.float64)
            made = resample_poly(wave, new // common, old // common)
            found[f"{old}_{new}_{count}"] = made.astype(np.float32)
    np.savez_compressed(RESAMPLED, **found)


SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "window_size": 2,
    "num_attention_heads": 2,
    "ffn_dim": 24,
    "flow_size": 8,
    "spectrogram_bins": 9,
    "upsample_initial_channel": 16,
    "upsample_rates": [4, 2],
    "upsample_kernel_sizes": [8, 4],
    "resblock_kernel_sizes": [3, 5],
    "resblock_dilation_sizes": [[1, 3], [1, 2]],
    "duration_predictor_filter_channels": 16,
    "duration_predictor_num_flows": 2,
    "prior_encoder_num_flows": 2,
    "prior_encoder_num_wavenet_layers": 2,
    "depth_separable_num_layers": 2,
    "posterior_encoder_num_wavenet_layers": 1,
    "sampling_rate": 8000,
    "use_stochastic_duration_prediction": True,
}


def make_voice(folder: Path, **change: Any) -> None:
    """Write a random voice as a folder of Hugging Face."""
    folder.mkdir(parents=True)
    model = transformers.VitsModel(
        transformers.VitsConfig(**{**SMALL, "vocab_size": len(LETTERS), **change})
    )
    with torch.no_grad():
        for weights in model.parameters():  # with few digits, for small archives
            weights.copy_((weights * 32).round() / 32)
        model.decoder.conv_post.weight *= 2.0**-5  # so that it does not speak too loud
    model.eval().save_pretrained(folder)
    vocabulary = {letter: number for number, letter in enumerate(LETTERS)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False) + "\n")
    settings = {
        "tokenizer_class": "VitsTokenizer",
        "phonemize": False,
        "normalize": True,
        "add_blank": True,
        "is_uroman": False,
        "language": "eng",
        "pad_token": LETTERS[0],
        "unk_token": "<unk>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")


@contextmanager
def drawn() -> Iterator[list[Any]]:
    """Collect the noise that a model draws."""
    found: list[Any] = []
    usual = torch.randn, torch.randn_like

    def kept(made: Any) -> Any:
        found.append(made.numpy().copy())
        return made

    torch.randn = lambda *given, **more: kept(usual[0](*given, **more))
    torch.randn_like = lambda *given, **more: kept(usual[1](*given, **more))
    try:
        yield found
    finally:
        torch.randn, torch.randn_like = usual


def spoken(root: Path) -> None:
    """Write what transformers' pipeline says."""
    found: dict[str, Any] = {}
    for number, (voice, text, options) in enumerate(SAID):
        speak = transformers.pipeline("text-to-speech", str(root / voice))
        torch.manual_seed(number)
        with drawn() as noise:
            said = speak(text, forward_params=options)
        found[f"audio{number}"] = said["audio"].reshape(-1)
        found[f"rate{number}"] = said["sampling_rate"]
        tokens = speak.tokenizer(text)["input_ids"]
        found[f"tokens{number}"] = np.array(tokens, np.int32)
        for at, one in enumerate(noise):
            found[f"noise{number}_{at}"] = one
        peak = np.abs(said["audio"]).max()
        print(voice, said["audio"].shape, f"{peak:.3f}", [one.shape for one in noise])
    np.savez_compressed(SPOKEN, **found)


def voices() -> None:
    """Make voices, export them, and let transformers speak with them."""
    torch.manual_seed(27)
    with tempfile.TemporaryDirectory() as work:
        models, out = Path(work, "models"), Path(work, "out")
        make_voice(models / "drawn")
        make_voice(models / "steady", use_stochastic_duration_prediction=False)
        spoken(models)
        for name in ("drawn", "steady"):
            report = export_task(models / name, out / name, "text-to-speech", max_length=128)
            print(name, report.program_bytes, "passed" if report.passed else report.problem)
            print(report.gpu_ops, report.host_ops, report.delegates, report.submissions)
        kept = ("model.pte", "model.manifest.json", "config.json")
        pack(out, VOICES, (*kept, "vocab.json", "tokenizer_config.json"), ("drawn", "steady"))


MOONSHINE = {
    "vocab_size": 80,
    "hidden_size": 32,
    "intermediate_size": 24,
    "encoder_num_hidden_layers": 1,
    "decoder_num_hidden_layers": 1,
    "encoder_num_attention_heads": 4,
    "decoder_num_attention_heads": 4,
    "max_position_embeddings": 24,
    "initializer_range": 0.5,
    "pad_token_id": 2,
}


def ears() -> None:
    """Make a Moonshine, export it, and let transformers hear with it."""
    torch.manual_seed(28)
    with tempfile.TemporaryDirectory() as work:
        folder, out = Path(work, "model"), Path(work, "out", "moonshine")
        folder.mkdir()
        model = transformers.MoonshineForConditionalGeneration(
            transformers.MoonshineConfig(**MOONSHINE)
        )
        save(model.eval(), folder)
        write_files(folder, "moonshine", 80)
        settings = {
            "feature_extractor_type": "Wav2Vec2FeatureExtractor",
            "sampling_rate": RATE,
            "do_normalize": False,
        }
        (folder / "preprocessor_config.json").write_text(json.dumps(settings) + "\n")
        report = export_task(folder, out, "automatic-speech-recognition")
        print("moonshine", report.program_bytes, "passed" if report.passed else report.problem)
        print(report.gpu_ops, report.host_ops, report.delegates, report.submissions)
        found = {}
        for number, seconds in enumerate(HEARD):
            samples = sound(seconds)
            frames = -(-(len(samples) - 511) // 384)  # of which silence fills the last
            given = torch.zeros(1, 384 * frames + 511)
            given[0, : len(samples)] = torch.from_numpy(samples)
            most = int(seconds * 6.5) + 1
            with torch.no_grad():
                tokens = model.generate(given, max_new_tokens=most, do_sample=False)[0]
            found[f"tokens{number}"] = tokens.numpy()
            print(tokens.tolist())
        np.savez_compressed(HEARD_TOKENS, **found)
        kept = ("model.pte", "model.manifest.json", "config.json", "generation_config.json")
        more = ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json")
        pack(out.parent, EARS, (*kept, *more), ["moonshine"])


def letters() -> None:
    """Make a wav2vec 2.0 with letters, export it, and let transformers hear with it."""
    torch.manual_seed(5)
    with tempfile.TemporaryDirectory() as work:
        folder, out = Path(work, "model"), Path(work, "out", "letters")
        folder.mkdir()
        model = speller(folder)
        report = export_task(folder, out, "automatic-speech-recognition", max_length=1)
        print("letters", report.program_bytes, "passed" if report.passed else report.problem)
        print(report.gpu_ops, report.host_ops, report.delegates, report.submissions)
        reader = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"))
        extractor = transformers.Wav2Vec2FeatureExtractor(do_normalize=True)
        found: dict[str, Any] = {}
        for number, seconds in enumerate(HEARD_LETTERS):
            samples = sound(seconds)
            given = extractor(samples, sampling_rate=RATE, return_tensors="pt").input_values
            padded = torch.nn.functional.pad(given, (0, RATE - given.shape[1]))
            with torch.no_grad():
                logits = model(padded).logits[0]
            frames = -(-len(logits) * len(samples) // RATE)
            text = reader.decode(logits[:frames].argmax(-1))
            print(len(logits), repr(text))
            found[f"text{number}"] = np.array(text)
        np.savez_compressed(SPELLED_TEXTS, **found)
        kept = ("model.pte", "model.manifest.json", "config.json", "vocab.json")
        more = ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json")
        pack(out.parent, SPELLER_FILES, (*kept, *more), ["letters"])


if __name__ == "__main__":
    DATA.mkdir(parents=True, exist_ok=True)
    works = {"resampled": resampled, "voices": voices, "ears": ears, "letters": letters}
    for name in sys.argv[1:] or works:
        works[name]()
