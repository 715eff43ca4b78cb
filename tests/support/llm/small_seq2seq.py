"""Small encoder-decoder models with transformers' answers, which export_seq2seq.py made."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from webpte_host.base.layout import ROOT

MODELS = ROOT / "tests" / "data" / "llm" / "seq2seq.zip"
FAMILIES = ("t5", "bart", "marian")


@dataclass(frozen=True)
class Greedy:
    """An input, the tokens that transformers generates for it, and the logits of each step.

    The tokens include the first token, which the model starts with.
    """

    source: list[int]
    tokens: list[int]
    logits: np.ndarray  # (steps, vocabulary)


@dataclass(frozen=True)
class Spoken:
    """A sound of so many seconds, and the segments that transformers finds: times and text."""

    seconds: float
    language: str | None
    timestamps: bool


SPOKEN = (Spoken(0.7, "en", True), Spoken(0.7, "de", False), Spoken(3.3, None, True))
RATE = 16000


def sound(seconds: float) -> np.ndarray:
    """Return a sound: tones that change, and noise."""
    times = np.arange(int(seconds * RATE)) / RATE
    noise = np.random.default_rng(7).standard_normal(times.size) * 0.02
    tones = np.sin(2 * np.pi * (200 + 900 * np.sin(3 * times)) * times) * np.abs(np.sin(7 * times))
    return (0.5 * tones + noise).astype(np.float32)


def whisper_settings() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return preprocessor_config.json and generation_config.json of the small Whisper.

    Its windows have a second, and its timestamps are the tokens from 29 on.
    """
    features = {"feature_size": 8, "chunk_length": 1, "n_fft": 400, "hop_length": 160}
    generation = {
        "eos_token_id": 20,
        "pad_token_id": 20,
        "bos_token_id": 20,
        "decoder_start_token_id": 21,
        "lang_to_id": {"<|en|>": 22, "<|de|>": 23},
        "task_to_id": {"translate": 24, "transcribe": 25},
        "no_timestamps_token_id": 28,
        "prev_sot_token_id": 26,
        "is_multilingual": True,
        "max_initial_timestamp_index": 25,
        "begin_suppress_tokens": [3, 20],
        "suppress_tokens": [1, 2, 21, 22, 23, 24, 25, 26, 27],
        "max_length": 24,
    }
    return features | {"sampling_rate": RATE}, generation


def tokenizer_of(tokens: int) -> dict[str, Any]:
    """Return a tokenizer with a word for each token, "w12" for 12.

    It has a form that JavaScript's tokenizers take, too.
    """
    words = {f"w{number}": number for number in range(tokens)}
    model = {"type": "BPE", "vocab": words, "merges": [], "ignore_merges": True, "unk_token": "w0"}
    return {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": model,
        **dict.fromkeys(("normalizer", "post_processor", "decoder")),
    }


def write_files(folder: Path, family: str, tokens: int, **config: Any) -> None:
    """Write the files beside a program: the tokenizer of `tokenizer_of`, and settings."""
    tokenizer = tokenizer_of(tokens)
    features, generation = whisper_settings()
    files: dict[str, Any] = {"tokenizer": tokenizer, "tokenizer_config": {}}
    if not (folder / "config.json").exists():
        files["config"] = config
    if family == "whisper":
        files |= {"preprocessor_config": features, "generation_config": generation}
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def write_folder(folder: Path, family: str, tokens: int, **config: Any) -> Path:
    """Write a model's folder; see `write_files`."""
    write_files(folder, family, tokens, **config)
    (folder / "model.pte").write_bytes(program_of(family))
    return folder


def text_of(tokens: list[int]) -> str:
    """Return the text of tokens in the form of `write_files`."""
    return " ".join(f"w{token}" for token in tokens)


@cache
def _whisper() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="webpte-whisper-")
    write_folder(Path(folder.name), "whisper", 80)
    return folder


def whisper_folder() -> Path:
    """Return a folder with the small Whisper, which is removed when the process ends."""
    return Path(_whisper().name)


def program_of(family: str) -> bytes:
    """Read the program of one family: two layers each of encoder and decoder."""
    with zipfile.ZipFile(MODELS) as packed:
        return packed.read(f"{family}.pte")


def kept(family: str) -> dict[str, np.ndarray]:
    """Read what export_seq2seq.py kept of a family besides the program."""
    with zipfile.ZipFile(MODELS) as packed:
        return dict(np.load(io.BytesIO(packed.read(f"{family}.npz"))))


def text_answers(family: str, count: int) -> tuple[list[str], list[str]]:
    """Return the first texts of a family, and transformers' answers to them as text."""
    cases = answers_of(family)[:count]
    # Behind the start token; transformers keeps the token that ends an answer.
    wanted = [[token for token in case.tokens[1:] if token != 1] for case in cases]
    return [text_of(case.source) for case in cases], [text_of(tokens) for tokens in wanted]


def answers_of(family: str) -> list[Greedy]:
    """Read transformers' greedy answers to several inputs."""
    found = kept(family)
    count = sum(name.startswith("source") for name in found)
    return [
        Greedy(found[f"source{n}"].tolist(), found[f"tokens{n}"].tolist(), found[f"logits{n}"])
        for n in range(count)
    ]
