"""The small models of tests/data/llm/training.zip (`export_training.py`), and their judge."""

from __future__ import annotations

import json
import zipfile
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

import webpte
from webpte.llm.lora.files import read_lora
from webpte.llm.lora.weights import LoraWeights
from webpte.llm.text import Tokenizer, load_tokenizer
from webpte.training import LoraTrainer, SavedLora
from webpte.training.lora_files import saved_lora
from webpte_host.base.layout import ROOT

MODELS = ("llama_8w",)
RATE, DECAY, RANK = 2e-3, 0.01, 4
CLOSE = 2e-5  # of a loss: 100 steps add up rounding errors
TEMPLATE = (
    "<s>{% for m in messages %}{{ m['role'][:1] }}:{{ m['content'] }}"
    "{% if m['role'] == 'assistant' %}</s>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}"
)


@cache
def folder() -> Path:
    """Return a folder with the unpacked files, until the process ends."""
    path = Path(mkdtemp(prefix="training"))
    zipfile.ZipFile(BytesIO((ROOT / "tests/data/llm/training.zip").read_bytes())).extractall(path)
    config = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": TEMPLATE}
    (path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return path


async def tokenizer() -> Tokenizer:
    return await load_tokenizer(folder() / "tokenizer.json")


async def open_model(name: str, device: Any, **options: Any) -> webpte.Program:
    return await webpte.llm.load(
        folder() / f"{name}.pte", device=device, **{"lora": RANK, "training": True, **options}
    )


def start_of(trainer: LoraTrainer, w: np.ndarray) -> SavedLora:
    """Return the LoRA to begin with as a file."""
    return saved_lora(trainer.form, w)


async def begin(trainer: LoraTrainer, expected: Any) -> None:
    """Let a trainer begin where PyTorch began."""
    start = start_of(trainer, expected["w"])
    await trainer.load(start.weights, config=start.config)


async def losses(trainer: LoraTrainer, expected: Any, steps: int) -> np.ndarray:
    """Return the losses of steps on the batches that PyTorch had."""
    found = []
    for step in range(steps):
        at = step % len(expected["tokens"])
        loss = await trainer.step(expected["tokens"][at], expected["targets"][at])
        found.append(loss if isinstance(loss, np.ndarray) else await loss.numpy())
    return np.concatenate(found)


async def check_model(name: str, device: Any, steps: int) -> None:
    """Compare losses with PyTorch's; after all 100, also the LoRA and the model's answers."""
    expected = np.load(folder() / f"{name}.npz")
    async with await open_model(name, device) as program:
        trainer = LoraTrainer(program, await tokenizer(), rate=RATE, decay=DECAY)
        await begin(trainer, expected)
        found = await losses(trainer, expected, steps)
        np.testing.assert_allclose(found, expected["losses"][:steps], rtol=CLOSE)
        if steps < len(expected["losses"]):
            return
        assert found[-1] < 0.7 * found[0]
        await trainer.use("mine")
        (logits,) = await program.forward(expected["prompt"], np.array([0]))
        spread = 2e-3 * np.abs(expected["logits"]).max()
        np.testing.assert_allclose(logits[0], expected["logits"], atol=spread)
        saved = await trainer.save()
        mine = await read_lora(saved.weights, config=saved.config)
        compare(mine, await read_lora(folder() / name))


def compare(mine: LoraWeights, wanted: LoraWeights) -> None:
    """Compare a LoRA with PEFT's, layer by layer."""
    assert mine.factors.keys() == wanted.factors.keys()
    for layer, factor in wanted.factors.items():
        for one, other in ((mine.factors[layer].a, factor.a), (mine.factors[layer].b, factor.b)):
            spread = 5e-3 * np.abs(other).max()
            np.testing.assert_allclose(one, other, atol=spread, err_msg=layer)
