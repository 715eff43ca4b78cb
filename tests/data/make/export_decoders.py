"""Exports a small decoder of each family, for the tests that count dispatches.

    PYTHONPATH=pysrc:tests python -m data.make.export_decoders FOLDER [FAMILY ...]

Run it in the export environment (docs/use/export.md). It writes FOLDER/FAMILY.pte, and raises if
one does not give PyTorch's results; `--pack OUT.zip` then packs all of FOLDER. The weights repeat
themselves, so that a zip of the programs is small.
"""

from __future__ import annotations

import sys
import warnings
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

LAYERS, CONTEXT, CHUNK = 2, 96, 32
_PERIOD = 61  # of the weights, less than any row, so that rows have the same scale
_EPOCH = (2020, 1, 1, 0, 0, 0)

_LLAMA: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 96,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "intermediate_size": 160,
    "max_position_embeddings": 128,
    "num_hidden_layers": LAYERS,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_HEADS = {**_LLAMA, "head_dim": 16}
_GEMMA = {**_HEADS, "sliding_window": 8, "query_pre_attn_scalar": 24}
_GPT: dict[str, Any] = {"vocab_size": 99, "n_embd": 96, "n_head": 6, "n_positions": 128}
_GPT |= {"n_layer": LAYERS, "bos_token_id": 1, "eos_token_id": 2}
_GRANITE = {"attention_multiplier": 0.2, "residual_multiplier": 0.22, "embedding_multiplier": 12.0}
_NO_GROUPS = {key: value for key, value in _LLAMA.items() if key != "num_key_value_heads"}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", _LLAMA),
    "qwen2": ("Qwen2ForCausalLM", _LLAMA),
    "qwen3": ("Qwen3ForCausalLM", _HEADS),
    "gemma": ("GemmaForCausalLM", _HEADS),
    "gemma2": ("Gemma2ForCausalLM", _GEMMA),
    "gemma3": ("Gemma3ForCausalLM", {**_GEMMA, "_sliding_window_pattern": 2}),
    "gemma3_one_key_head": ("Gemma3ForCausalLM", {**_GEMMA, "num_key_value_heads": 1}),
    "phi": ("PhiForCausalLM", _LLAMA),
    "phi3": ("Phi3ForCausalLM", _LLAMA),
    "gpt2": ("GPT2LMHeadModel", _GPT),
    "gpt_neox": ("GPTNeoXForCausalLM", {**_NO_GROUPS, "num_attention_heads": 3}),
    "mistral": ("MistralForCausalLM", {**_LLAMA, "sliding_window": 8}),
    "olmo2": ("Olmo2ForCausalLM", _LLAMA),
    "granite": ("GraniteForCausalLM", {**_LLAMA, **_GRANITE}),
    "smollm3": ("SmolLM3ForCausalLM", {**_LLAMA, "no_rope_layer_interval": 2}),
    "cohere": ("CohereForCausalLM", _LLAMA),
}


def build(name: str) -> Any:
    """Build a model with weights that repeat themselves."""
    import torch
    import transformers

    stem, options = FAMILIES[name]
    kind = getattr(transformers, stem)
    torch.manual_seed(0)
    model = kind(kind.config_class(**options)).eval()
    for i, (path, parameter) in enumerate(model.named_parameters()):
        is_norm = "norm" in path or "ln_" in path
        mean = float(is_norm and path.endswith("weight") and "gemma" not in name)
        drawn = torch.randn(_PERIOD, generator=torch.Generator().manual_seed(i)) * 0.15 + mean
        repeated = drawn.repeat(parameter.numel() // _PERIOD + 1)[: parameter.numel()]
        parameter.data = repeated.reshape(parameter.shape).contiguous()
    return model


def export(name: str, folder: Path) -> None:
    """Export one family with 8-bit weights; raise if its results are not PyTorch's."""
    import torch

    from webpte_export.exporter import Clock, export_prepared
    from webpte_export.llm.decoder import Decoder
    from webpte_export.llm.export import _length
    from webpte_export.llm.other_models import quantize_decoder
    from webpte_export.llm.simplify_graph import rewritten
    from webpte_export.suite_writer import Tolerance

    decoder = Decoder(build(name), CONTEXT).eval()
    ids = torch.randint(3, 99, (1, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        decoder.all_logits(ids)  # makes the tables of rotary embeddings, as the real export does
    quantize_decoder(decoder, "8w")
    calls = [
        (ids[:, first:last], torch.tensor([first]))
        for first, last in ((0, 7), (7, 8), (8, 9), (9, 29), (5, 6))
    ]
    with TemporaryDirectory() as made:
        program = Path(made) / f"{name}.pte"
        report = export_prepared(
            *(decoder, calls, program),
            dynamic_shapes=({1: _length(CHUNK)}, {0: 1}),
            metadata={"get_max_seq_len": CHUNK, "get_max_context_len": CONTEXT},
            tolerance=Tolerance(1e-3, 1e-3),
            quantize="8w",
            half=False,
            strict=False,
            clock=Clock(),
            rewrite=rewritten,
        )
        if not report.passed:
            raise SystemExit(f"{name}: {report.problem or report.max_abs}")
        (folder / program.name).write_bytes(program.read_bytes())


def write_entry(packed: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Write a file of a fixed date, so that equal contents make equal archives."""
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_LZMA
    packed.writestr(info, data)


def pack(folder: Path, out: Path) -> None:
    """Pack the programs of a folder into a zip."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as packed:
        for path in sorted(folder.glob("*.pte")):
            write_entry(packed, path.name, path.read_bytes())


def main(arguments: list[str]) -> None:
    warnings.simplefilter("ignore")
    folder = Path(arguments[0])
    if arguments[1:2] == ["--pack"]:
        pack(folder, Path(arguments[2]))
        return
    from webpte_export.exporter_patches import patch_exporter

    patch_exporter()  # before transformers, which imports torchvision
    folder.mkdir(parents=True, exist_ok=True)
    for name in arguments[1:] or FAMILIES:
        export(name, folder)
        print(f"exported {name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
