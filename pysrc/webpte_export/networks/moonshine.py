"""Moonshine's weights, from ONNX files with 8-bit weights to a folder of Hugging Face.

The files were exported from transformers, so operators have their modules' names, except for
modules that were renamed since.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from webpte_export.networks.onnx_file import Graph, Node, read_onnx

RATE = 16_000
_RENAMED = (("dense", "o_proj"), ("up_proj", "fc1"), ("down_proj", "fc2"))
_MERGED, _QUANTIZED = "_merged_0", "_quantized"
_CONFIG = {"max_position_embeddings": 194, "pad_token_id": 2}  # the others have the usual names


def write_folder(encoder: Path, decoder: Path, tokenizer: Path, out: Path) -> None:
    """Write a model in Hugging Face's form: weights, config, tokenizer, preparation of sounds."""
    from webpte_export.exporter_patches import hide_broken_torchvision

    hide_broken_torchvision()
    from transformers import GenerationConfig, MoonshineConfig, MoonshineForConditionalGeneration

    model = MoonshineForConditionalGeneration(MoonshineConfig(**_CONFIG)).eval()
    weights = {
        **{f"model.encoder.{name}": array for name, array in _weights(read_onnx(encoder))},
        **dict(_weights(read_onnx(decoder))),
    }
    missing, unknown = model.load_state_dict(
        {name: torch.from_numpy(array.copy()) for name, array in weights.items()}, strict=False
    )
    lost = [name for name in missing if name != "proj_out.weight"]  # the embedding's
    if lost or unknown:
        raise ValueError(f"weights of Moonshine that do not fit: {[*lost, *unknown][:4]}")
    model.tie_weights()
    model.generation_config = GenerationConfig(
        bos_token_id=1, eos_token_id=2, pad_token_id=2, decoder_start_token_id=1, max_length=194
    )
    model.save_pretrained(out)
    (out / "tokenizer.json").write_bytes(tokenizer.read_bytes())
    _write(out / "tokenizer_config.json", {"bos_token": "<s>", "eos_token": "</s>"})
    _write(
        out / "preprocessor_config.json",
        {
            "feature_extractor_type": "Wav2Vec2FeatureExtractor",
            "sampling_rate": RATE,
            "do_normalize": False,
        },
    )


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _weights(graph: Graph) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the weights of a file by the names of transformers."""
    constants = graph.constants
    nodes = list(_all_nodes(graph.nodes))
    for name, array in constants.items():
        plain = name.replace(_MERGED, "")
        if plain.endswith((".weight", ".bias")) and not plain.startswith("onnx::"):
            yield _renamed(plain), array
        elif plain.endswith((".weight_quantized", ".bias_quantized")):
            yield _renamed(plain.removesuffix(_QUANTIZED)), _dequantized(constants, name)
    for node in nodes:
        if node.op == "MatMulInteger" and node.inputs[1] in constants:
            module = node.name.strip("/").removesuffix("/MatMul_quant").replace("/", ".")
            if module.startswith("proj_out"):
                continue  # the embedding's
            yield _renamed(f"{module}.weight"), _dequantized(constants, node.inputs[1]).T
        elif node.name == "/groupnorm/Mul":
            yield "groupnorm.weight", constants[node.inputs[1]].reshape(-1)
        elif node.name == "/groupnorm/Add":
            yield "groupnorm.bias", constants[node.inputs[1]].reshape(-1)


def _all_nodes(nodes: list[Node]) -> Iterator[Node]:
    """Yield operators, also in branches; operators in both branches come twice."""
    for node in nodes:
        yield node
        for value in node.attributes.values():
            if isinstance(value, Graph):
                yield from _all_nodes(value.nodes)


def _renamed(name: str) -> str:
    for old, new in _RENAMED:
        name = name.replace(f".{old}.", f".{new}.")
    return name


def _dequantized(constants: dict[str, np.ndarray], name: str) -> np.ndarray:
    """Return float32 weights from 8-bit weights with a scale and a zero point.

    A zero point of type float, as in convolutions, is added after the scale.
    """
    stem = name.removesuffix(_QUANTIZED)
    zero, scale = constants[f"{stem}_zero_point"], constants[f"{stem}_scale"]
    values = constants[name].astype(np.float32)
    if zero.dtype.kind == "f":
        return values * scale + zero
    found: np.ndarray = (values - zero.astype(np.float32)) * scale.astype(np.float32)
    return found
