"""Writes tests/data/llm/optimum.zip: small programs of optimum-executorch, with its answers.

    PYTHONPATH=pysrc:tests python tests/data/make/make_optimum.py

It needs the environment of `serve.py export`, and optimum-executorch 1.1.0. The models have random
weights, a single layer and 64 tokens. `answers.json` has the tokens that ExecuTorch's runtime
gives: the whole prompt in a call where the program takes that, then token by token.
"""

from __future__ import annotations

import importlib
import io
import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import torch

from data.make.task_models import transformers as tf
from webpte_host.base.layout import ROOT

# optimum-executorch 1.1.0 imports a name that its transformers, 5.0.0rc1, has no more.
tf.cache_utils.HybridCache = tf.cache_utils.StaticCache
TARGET = ROOT / "tests" / "data" / "llm" / "optimum.zip"
PROMPT, NEW, CONTEXT = [1, 17, 33, 44, 20, 5, 57], 12, 32
CUSTOM = {"use_custom_sdpa": True, "use_custom_kv_cache": True}
PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "custom": ("llama", CUSTOM),
    "quantized": ("llama", {**CUSTOM, "qlinear": "8da4w", "qlinear_group_size": 32}),
    "masked": ("llama", {}),
    "static": ("llama", {"disable_dynamic_shapes": True}),
    "hybrid": ("gemma3", CUSTOM),
}
SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.15,
}


def save_model(folder: Path, kind: str) -> None:
    torch.manual_seed(3)
    if kind == "llama":
        config = tf.LlamaConfig(**SIZES, num_hidden_layers=1)
        tf.LlamaForCausalLM(config).save_pretrained(folder)
        return
    layers = ["sliding_attention", "full_attention"]
    config = tf.Gemma3TextConfig(
        **SIZES, head_dim=16, num_hidden_layers=2, layer_types=layers, sliding_window=8
    )
    tf.Gemma3ForCausalLM(config).save_pretrained(folder)


def export(folder: Path, **how: Any) -> bytes:
    parts = "optimum.exporters.executorch"
    importlib.import_module(f"{parts}.convert")  # registers the attention
    task = importlib.import_module(f"{parts}.tasks.causal_lm")
    recipe = importlib.import_module(f"{parts}.recipes.xnnpack")
    model = task.load_causal_lm_model(str(folder), max_length=CONTEXT, **how)
    program = recipe.export_to_executorch_with_xnnpack(model)["model"]
    return bytes(program.buffer)


def answer(data: bytes, whole: bool) -> list[int]:
    for library in (
        "executorch.extension.llm.custom_ops.custom_ops",
        "executorch.kernels.quantized",
    ):
        importlib.import_module(library)
    runtime = importlib.import_module("executorch.runtime").Runtime.get()
    method = runtime.load_program(data).load_method("forward")

    def following(tokens: list[int], position: int) -> int:
        places = torch.arange(position, position + len(tokens))
        logits = method.execute([torch.tensor([tokens]), places])[0]
        return int(logits.reshape(-1, SIZES["vocab_size"])[-1].argmax())

    tokens = list(PROMPT)
    if whole:
        tokens.append(following(tokens, 0))
    else:
        tokens += [following([token], at) for at, token in enumerate(PROMPT)][-1:]
    while len(tokens) < len(PROMPT) + NEW:
        tokens.append(following(tokens[-1:], len(tokens) - 1))
    return tokens[len(PROMPT) :]


def main() -> None:
    answers: dict[str, Any] = {"prompt": PROMPT}
    packed = io.BytesIO()
    with (
        tempfile.TemporaryDirectory() as name,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for program, (kind, how) in PROGRAMS.items():
            folder = Path(name) / kind
            if not folder.exists():
                save_model(folder, kind)
            data = export(folder, **how)
            answers[program] = answer(data, not how.get("disable_dynamic_shapes"))
            archive.writestr(f"{program}.pte", data)
            print(program, len(data), answers[program])
        archive.writestr("answers.json", json.dumps(answers))
    TARGET.write_bytes(packed.getvalue())


if __name__ == "__main__":
    main()
