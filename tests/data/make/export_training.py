"""Exports small language models that can be trained, with the losses that PyTorch gives.

    PYTHONPATH=pysrc:tests python -m data.make.export_training OUT.zip [MODEL ...]

Run it in the export environment (docs/use/export.md), with the PEFT library. A model of
transformers that has the weights as the program has them, quantized and back, is trained by PEFT's
LoRA and PyTorch's own AdamW for 100 steps.

    MODEL.pte                    programs with the methods `forward` and `learn`
    MODEL.npz                    tokens and targets (batches, rows, length); the flat vector w to
                                 begin with; losses (100,); a prompt, and its logits in the end
    MODEL/adapter_*              the LoRA in the end, as PEFT writes it
    tokenizer.json               of all of them
"""

from __future__ import annotations

import json
import sys
import warnings
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from data.make.export_decoders import write_entry

STEPS, RATE, DECAY, BATCHES = 100, 2e-3, 0.01, 4
RANK, ALPHA, ROWS, LENGTH = 4, 8.0, 2, 24
VOCABULARY, PERIOD = 288, 61
MODELS: dict[str, tuple[str, str | None]] = {
    "llama_8w": ("Llama", "8w"),
    "qwen2_4w": ("Qwen2", "4w"),
    "qwen3": ("Qwen3", None),
}
LINES = (
    "The ferry leaves at nine and comes back before the tide turns.",
    "Nobody counts the gulls; they count us, one by one, at the pier.",
    "A letter came for the cook, written in green ink and very short.",
    "When the bell rings twice, close the lower gates and wait.",
)
_SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
}


def write_model(kind: str, folder: Path) -> Any:
    """Write a folder of Hugging Face's form with weights that repeat themselves."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    model = getattr(transformers, f"{kind}ForCausalLM")(
        getattr(transformers, f"{kind}Config")(**_SIZES)
    ).eval()
    for number, (path, parameter) in enumerate(model.named_parameters()):
        generator = torch.Generator().manual_seed(number)
        drawn = torch.randn(PERIOD, generator=generator) * 0.2 + float("norm" in path)
        repeated = drawn.repeat(parameter.numel() // PERIOD + 1)[: parameter.numel()]
        parameter.data = repeated.reshape(parameter.shape).contiguous()
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return model


def as_exported(model: Any, folder: Path, quantize: str | None) -> None:
    """Give a model of transformers the weights that the program has, as floats."""
    import torch

    from webpte_export.llm.huggingface import meta_name
    from webpte_export.llm.model import build, quantize_embedding
    from webpte_export.llm.read_source import read_source
    from webpte_export.llm.source import Shape, pairs_apart
    from webpte_export.quantize import quantize_weights
    from webpte_export.training.frozen import frozen_layer

    source = read_source(folder)
    exported = build(source, LENGTH, LENGTH)
    if quantize is not None:
        quantize_embedding(exported)
        quantize_weights(exported, quantize)
    shape = source.shape
    assert isinstance(shape, Shape)
    heads = {"wq": shape.heads, "wk": shape.kv_heads}
    for path, parameter in model.named_parameters():
        if not path.endswith("_proj.weight") and path != "lm_head.weight":
            continue
        name = meta_name(path, folder).removesuffix(".weight")
        layer = frozen_layer(exported.get_submodule(name))
        with torch.no_grad():
            weight = layer.backward(torch.eye(parameter.shape[0]))
        kind = name.rpartition(".")[2]
        if kind in heads:
            weight = pairs_apart(weight, heads[kind], shape.head_dim)
        assert (weight - parameter).abs().max() < 0.1
        parameter.data = weight
    table = exported.tok_embeddings(torch.arange(VOCABULARY))
    model.get_input_embeddings().weight.data = table.detach()


def batches(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens and targets of a few batches; the lines are padded, or cut."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokens = np.ones((BATCHES, ROWS, LENGTH), np.int64)
    targets = np.full((BATCHES, ROWS, LENGTH), -1, np.int32)
    for number in range(BATCHES * ROWS):
        at = divmod(number, ROWS)
        line = LINES[number % len(LINES)][number // len(LINES) * 9 :]
        ids = [0, *tokenizer.encode(line).ids, 1][: LENGTH + 1 - number % 3]
        tokens[at][: len(ids) - 1] = ids[:-1]
        targets[at][: len(ids) - 1] = ids[1:]
    return tokens, targets


def trained(
    model: Any, tokens: np.ndarray, targets: np.ndarray
) -> tuple[Any, np.ndarray, list[Any]]:
    """Return the model that PEFT has trained, the losses, and the matrices to begin with."""
    import peft
    import torch

    layers = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    config = peft.LoraConfig(
        task_type="CAUSAL_LM", r=RANK, lora_alpha=ALPHA, target_modules=layers, lora_dropout=0.0
    )
    torch.manual_seed(0)
    wrapped = peft.get_peft_model(model, config)
    trained = {path: one for path, one in wrapped.named_parameters() if one.requires_grad}
    start = [(path, one.detach().clone()) for path, one in trained.items()]
    optimizer = torch.optim.AdamW(trained.values(), lr=RATE, weight_decay=DECAY)
    losses = []
    for step in range(STEPS):
        given = torch.from_numpy(tokens[step % BATCHES])
        wanted = torch.from_numpy(targets[step % BATCHES]).long()
        logits = wrapped(input_ids=given, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, VOCABULARY), wanted.reshape(-1), ignore_index=-1
        )
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return wrapped.eval(), np.array(losses), start


def flat_start(start: list[Any], source: Any, options: Any) -> np.ndarray:
    """Return the matrices to begin with in the order of the program's flat vector; B is zero."""
    from webpte_export.training.adapters import layout

    adapters = layout(source.shape, options)
    w = np.zeros(adapters[-1].end, np.float32)
    drawn = dict(start)
    for adapter in adapters:
        path = f"base_model.model.{adapter.name}.lora_A.default.weight"
        w[adapter.start : adapter.middle] = drawn[path].numpy().ravel()
        assert not drawn[path.replace("lora_A", "lora_B")].any()
    return w


def export(name: str, packed: zipfile.ZipFile) -> None:
    """Export one model, train it in PyTorch, and put both into the archive."""
    import torch

    from webpte_export.llm.export import export_llm
    from webpte_export.llm.read_source import read_source
    from webpte_export.training.adapters import LoraOptions
    from webpte_export.training.prepare import lora_training

    kind, quantize = MODELS[name]
    options = LoraOptions(rank=RANK, alpha=ALPHA, batch=ROWS, length=LENGTH)
    with TemporaryDirectory() as made:
        folder, out = Path(made) / "model", Path(made) / "out"
        model = write_model(kind, folder)
        train = lora_training(options)
        report = export_llm(folder, out / name, quantize=quantize, max_chunk=32, train=train)
        print(report.text())
        if not report.passed:
            raise SystemExit(f"{name}: {report.problem or report.max_abs}")
        as_exported(model, folder, quantize)
        tokens, targets = batches(folder)
        wrapped, losses, start = trained(model, tokens, targets)
        prompt = torch.from_numpy(tokens[:1, 0, :7])
        with torch.no_grad():
            logits = wrapped(input_ids=prompt, use_cache=False).logits[0, -1].numpy()
        print(name, losses[[0, 1, 9, 49, 99]])
        arrays = {
            "tokens": tokens.astype(np.int16),
            "targets": targets.astype(np.int16),
            "w": flat_start(start, read_source(folder), options),
            "losses": losses,
            "prompt": prompt.numpy(),
            "logits": logits,
        }
        np.savez(out / f"{name}.npz", **arrays)
        wrapped.save_pretrained(out / "lora")
        write_entry(packed, f"{name}.pte", (out / f"{name}.pte").read_bytes())
        write_entry(packed, f"{name}.npz", (out / f"{name}.npz").read_bytes())
        for file in ("adapter_model.safetensors", "adapter_config.json"):
            write_entry(packed, f"{name}/{file}", (out / "lora" / file).read_bytes())
        if name == next(iter(MODELS)):
            write_entry(packed, "tokenizer.json", (out / "tokenizer.json").read_bytes())


def main(arguments: list[str]) -> None:
    warnings.simplefilter("ignore")
    from webpte_export.exporter_patches import patch_exporter

    patch_exporter()  # before transformers, which imports torchvision
    with zipfile.ZipFile(arguments[0], "w", zipfile.ZIP_LZMA) as packed:
        for name in arguments[1:] or MODELS:
            export(name, packed)


if __name__ == "__main__":
    main(sys.argv[1:])
