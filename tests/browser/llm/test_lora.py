"""LoRAs on WebGPU: logits and steps of training as PyTorch has them, switched between calls."""

from __future__ import annotations

import numpy as np
import pytest

from support.harness import limits
from support.page.page import python
from webpte_host.harness.browser import Harness

CODE = """
import io, json, zipfile
import js

reply = await js.fetch("/data/llm/lora.zip")
packed = zipfile.ZipFile(io.BytesIO((await reply.arrayBuffer()).to_bytes()))
expected = np.load(io.BytesIO(packed.read("llama_4w.npz")))
tokens, errors = expected["tokens"], []
async with await webpte.llm.load(packed.read("llama_4w.pte"), strict=True, lora=5) as program:
    loras = {"base": None}
    for name in ("one", "two"):
        config = json.loads(packed.read(f"llama_4w/{name}/adapter_config.json"))
        data = packed.read(f"llama_4w/{name}/adapter_model.safetensors")
        loras[name] = await webpte.llm.load_lora(program, data, config=config, name=name)
    for name in ("one", "base", "two"):
        await webpte.llm.use_lora(program, loras[name])
        found = [(await program.forward(tokens[None, :-1], np.array([0])))[0]]
        found.append((await program.forward(tokens[None, -1:], np.array([len(tokens) - 1])))[0])
        wanted = expected[name][-2:]
        errors.append(float(np.abs(np.concatenate(found) - wanted).max() / np.abs(wanted).max()))
return errors
"""

TRAINING = """
import io, zipfile
import js
from webpte.training.lora_files import saved_lora

reply = await js.fetch("/data/llm/training.zip")
packed = zipfile.ZipFile(io.BytesIO((await reply.arrayBuffer()).to_bytes()))
expected = np.load(io.BytesIO(packed.read("llama_8w.npz")))
tokenizer = await webpte.text.load_tokenizer(packed.read("tokenizer.json"))
found = []
async with await webpte.llm.load(
    packed.read("llama_8w.pte"), strict=True, lora=4, training=True
) as program:
    trainer = webpte.training.LoraTrainer(program, tokenizer, rate=2e-3, decay=0.01)
    start = saved_lora(trainer.form, expected["w"])
    await trainer.load(start.weights, config=start.config)
    for step in range(10):
        batch = expected["tokens"][step % 4], expected["targets"][step % 4]
        found.append(float((await (await trainer.step(*batch)).numpy())[0]))
    await trainer.use("mine")
    tokens = [token async for token in webpte.llm.generate(program, [0, 5], max_new_tokens=3)]
return [found, expected["losses"][:10].tolist(), len(tokens)]
"""


def test_logits_are_those_of_pytorch(harness: Harness) -> None:
    errors = python(harness, CODE, timeout=limits.CALL_SECONDS)
    assert len(errors) == 3
    assert max(errors) < 1e-3, errors


@pytest.mark.thorough
def test_steps_of_training_are_those_of_pytorch(harness: Harness) -> None:
    found, wanted, tokens = python(harness, TRAINING, timeout=limits.CALL_SECONDS)
    np.testing.assert_allclose(found, wanted, rtol=2e-5)
    assert tokens > 0
