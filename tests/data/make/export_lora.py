"""Exports small language models and LoRAs for them, with the logits that PyTorch gives.

    PYTHONPATH=pysrc:tests python -m data.make.export_lora OUT.zip

Run it in the export environment (docs/use/export.md), with the PEFT library, which writes the LoRAs
and judges the model of floats. Quantized models are judged by their modules, to whose linear layers
hooks add the branches.

    MODEL.pte                    programs
    MODEL.npz                    tokens (n,); logits of "base" and of each LoRA (n, vocabulary)
    MODEL/LORA/adapter_*         as PEFT writes them
"""

from __future__ import annotations

import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from data.make.export_decoders import write_entry

CONTEXT, CHUNK, LENGTH = 96, 32, 12
# Family, quantization, and its linear layers by the last parts of their names.
MODELS: dict[str, tuple[str, str | None, list[str]]] = {
    "llama": ("llama", None, ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "down_proj"]),
    "llama_4w": ("llama", "4w", ["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"]),
    "gpt2_8w": ("gpt2", "8w", ["c_attn", "c_fc", "mlp.c_proj"]),
    "granite": ("granite", None, ["q_proj", "k_proj", "o_proj", "down_proj"]),
    "phi": ("phi", None, ["q_proj", "v_proj", "dense", "fc1", "fc2"]),
    "phi3_8w": ("phi3", "8w", ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]),
    "gpt_neox": ("gpt_neox", None, ["query_key_value", "dense_h_to_4h"]),
    "gemma3": ("gemma3", None, ["q_proj", "v_proj", "o_proj", "gate_proj", "up_proj"]),
}


def build(name: str) -> Any:
    """Build a model whose vocabulary is a multiple of 32, as 4 bits require."""
    from data.make import export_decoders

    stem, options = export_decoders.FAMILIES[name]
    export_decoders.FAMILIES[name] = stem, {**options, "vocab_size": 96}
    return export_decoders.build(name)


def write_loras(model: Any, layers: list[str], folder: Path) -> None:
    """Write two LoRAs of a model: one of all these layers, one with other settings of fewer."""
    import peft
    import torch

    first = layers[0]
    configs = {
        "one": {"r": 4, "lora_alpha": 6, "target_modules": layers},
        "two": {
            "r": 2,
            "lora_alpha": 3,
            "use_rslora": True,
            "target_modules": layers[:2],
            "rank_pattern": {first: 3},
            "alpha_pattern": {first: 5},
        },
    }
    for seed, (name, options) in enumerate(configs.items()):
        config = peft.LoraConfig(task_type="CAUSAL_LM", **options)
        wrapped = peft.get_peft_model(model, config)
        generator = torch.Generator().manual_seed(seed)
        for path, parameter in wrapped.named_parameters():
            if "lora_" in path:
                drawn = torch.randn(parameter.shape, generator=generator) * 0.3
                parameter.data = drawn.bfloat16().float()
        wrapped.save_pretrained(folder / name)
        model = wrapped.unload()


def logits_of(model: Any, tokens: Any) -> np.ndarray:
    import torch

    with torch.no_grad():
        return model(input_ids=tokens, use_cache=False).logits[0].numpy()


def judge_floats(model: Any, tokens: Any, folder: Path) -> dict[str, np.ndarray]:
    """Return the logits of the model and of its LoRAs, by PEFT."""
    import peft

    found = {"base": logits_of(model, tokens)}
    for lora in ("one", "two"):
        wrapped = peft.PeftModel.from_pretrained(model, folder / lora).eval()
        found[lora] = logits_of(wrapped, tokens)
        model = wrapped.unload()
    return found


def judge_module(module: Any, names: Any, tokens: Any, folder: Path) -> dict[str, np.ndarray]:
    """Return the logits of the module that is exported, with hooks that add the branches."""
    import asyncio

    import torch

    from webpte.llm.lora.files import read_lora
    from webpte.llm.lora.slots import LinearModule

    def run() -> np.ndarray:
        with torch.no_grad():
            each = [module(tokens[:, n : n + 1], torch.tensor([n])) for n in range(LENGTH)]
        return torch.cat(each).numpy()

    def branch(a: Any, b: Any) -> Callable[..., Any]:
        return lambda _module, given, out: out + (given[0] @ a.T) @ b.T

    found = {"base": run()}
    for lora in ("one", "two"):
        factors = asyncio.run(read_lora(folder / lora)).factors
        hooks, used = [], set()
        for path, child in module.named_modules():
            layer = names(path)
            if layer is not None and layer.name in factors:
                factor = factors[layer.name]
                rows = LinearModule(layer.name, "", layer.pairs, scale=layer.scale).matrix(factor.b)
                given = torch.from_numpy(factor.a), torch.from_numpy(np.ascontiguousarray(rows))
                hooks.append(child.register_forward_hook(branch(*given)))
                used.add(layer.name)
        assert used == factors.keys(), sorted(factors.keys() - used)
        found[lora] = run()
        for hook in hooks:
            hook.remove()
    return found


def export(name: str, folder: Path) -> None:
    """Write one model, its LoRAs and the logits; raise if the program does not give PyTorch's."""
    import torch

    from webpte_export.exporter import Clock
    from webpte_export.llm import export as exporting
    from webpte_export.llm.read_source import read_source

    family, quantize, layers = MODELS[name]
    model, tokens = build(family), list(range(3, 3 + LENGTH))
    given = torch.tensor([tokens])
    write_loras(model, layers, folder / name)
    setattr(exporting, "write_tokenizer", lambda *_: tokens)  # noqa: B010
    with TemporaryDirectory() as made:
        source_folder = Path(made, "model")
        model.save_pretrained(source_folder)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            (source_folder / file).write_text("{}")
            (Path(made) / file).write_text("{}")
        program = Path(made, f"{name}.pte")
        how: dict[str, Any] = {
            "quantize": quantize,
            "context": CONTEXT,
            "chunk": CHUNK,
            "half": False,
        }
        source = read_source(source_folder)
        report = exporting.export_source(source, program, **how, half=False, clock=Clock())
        if not report.passed:
            raise SystemExit(f"{name}: {report.problem or report.max_abs}")
        if quantize is None:
            found = judge_floats(model, given, folder / name)
        else:
            source = read_source(source_folder)
            module, _ = exporting._model(source, CONTEXT, CHUNK, quantize, tokens)
            found = judge_module(module, exporting.layer_names(source), given, folder / name)
        arrays: dict[str, Any] = {"tokens": np.array(tokens), **found}
        np.savez(folder / f"{name}.npz", **arrays)
        (folder / program.name).write_bytes(program.read_bytes())


def main(arguments: list[str]) -> None:
    warnings.simplefilter("ignore")
    from webpte_export.exporter_patches import patch_exporter

    patch_exporter()  # before transformers, which imports torchvision
    with TemporaryDirectory() as made, zipfile.ZipFile(arguments[0], "w") as packed:
        folder = Path(made)
        for name in arguments[1:] or MODELS:
            export(name, folder)
            print(f"exported {name}", flush=True)
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix != ".md":
                write_entry(packed, str(path.relative_to(folder)), path.read_bytes())


if __name__ == "__main__":
    main(sys.argv[1:])
