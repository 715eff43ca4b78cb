"""The small models and LoRAs of tests/data/llm/lora.zip (`export_lora.py`), and their judge."""

from __future__ import annotations

import zipfile
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

import webpte
from webpte_host.base.layout import ROOT

MODELS = ("llama", "llama_4w", "gpt2_8w", "granite", "phi", "phi3_8w", "gpt_neox", "gemma3")
LORAS = ("one", "two")
RANK = 4  # the largest of them


@cache
def folder() -> Path:
    """Return a folder with the unpacked files, until the process ends."""
    path = Path(mkdtemp(prefix="lora"))
    zipfile.ZipFile(BytesIO((ROOT / "tests/data/llm/lora.zip").read_bytes())).extractall(path)
    return path


async def open_model(name: str, device: Any, **options: Any) -> webpte.Program:
    return await webpte.llm.load(
        folder() / f"{name}.pte", device=device, **{"lora": RANK + 1, **options}
    )


async def check_model(name: str, device: Any, tolerance: float = 1e-3, **options: Any) -> None:
    """Compare the logits of a model and its LoRAs with PyTorch's, token by token and at once."""
    expected = np.load(folder() / f"{name}.npz")
    tokens = expected["tokens"]
    async with await open_model(name, device, **options) as program:
        loras = {
            lora: await webpte.llm.load_lora(program, folder() / name / lora) for lora in LORAS
        }
        for which in ("base", *LORAS, "base"):
            await webpte.llm.use_lora(program, loras.get(which))
            wanted = expected[which]
            spread = np.abs(wanted).max() * tolerance
            (found,) = await program.forward(tokens[None], np.array([0]))
            np.testing.assert_allclose(found[0], wanted[-1], atol=spread, err_msg=which)
            for n, token in enumerate(tokens):
                (found,) = await program.forward(np.array([[token]]), np.array([n]))
                np.testing.assert_allclose(found[0], wanted[n], atol=spread, err_msg=which)


async def dispatches(name: str, device: Any, tokens: int, **options: Any) -> int:
    """Return the dispatches of a call of so many tokens."""
    async with await open_model(name, device, **options) as program:
        await program.forward(np.ones((1, tokens), np.int64), np.array([0]))
        return program.stats.dispatches
