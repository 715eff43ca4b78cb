"""LoRAs on WebGPU: logits as PyTorch computes them, switched between calls."""

from __future__ import annotations

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
async with await webpte.load(packed.read("llama_4w.pte"), strict=True, lora=5) as program:
    loras = {"base": None}
    for name in ("one", "two"):
        config = json.loads(packed.read(f"llama_4w/{name}/adapter_config.json"))
        data = packed.read(f"llama_4w/{name}/adapter_model.safetensors")
        loras[name] = await program.load_lora(data, config=config, name=name)
    for name in ("one", "base", "two"):
        await program.use_lora(loras[name])
        found = [(await program.forward(tokens[None, :-1], np.array([0])))[0]]
        found.append((await program.forward(tokens[None, -1:], np.array([len(tokens) - 1])))[0])
        wanted = expected[name][-2:]
        errors.append(float(np.abs(np.concatenate(found) - wanted).max() / np.abs(wanted).max()))
return errors
"""


def test_logits_are_those_of_pytorch(harness: Harness) -> None:
    errors = python(harness, CODE, timeout=limits.CALL_SECONDS)
    assert len(errors) == 3
    assert max(errors) < 1e-3, errors
