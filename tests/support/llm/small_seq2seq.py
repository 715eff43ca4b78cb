"""Small encoder-decoder models with transformers' answers, which export_seq2seq.py made."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass

import numpy as np

from webpte_host.base.layout import ROOT

MODELS = ROOT / "tests" / "data" / "llm" / "seq2seq.zip"
FAMILIES = ("t5", "bart", "marian")


@dataclass(frozen=True)
class Greedy:
    """An input, the tokens that transformers generates for it, and the logits of each step.

    The tokens include the one that the model starts with.
    """

    source: list[int]
    tokens: list[int]
    logits: np.ndarray  # (steps, vocabulary)


def program_of(family: str) -> bytes:
    """Read the program of one family: two layers each of encoder and decoder."""
    with zipfile.ZipFile(MODELS) as packed:
        return packed.read(f"{family}.pte")


def answers_of(family: str) -> list[Greedy]:
    """Read transformers' greedy answers to several inputs."""
    with zipfile.ZipFile(MODELS) as packed:
        kept = np.load(io.BytesIO(packed.read(f"{family}.npz")))
    count = sum(name.startswith("source") for name in kept.files)
    return [
        Greedy(kept[f"source{n}"].tolist(), kept[f"tokens{n}"].tolist(), kept[f"logits{n}"])
        for n in range(count)
    ]
