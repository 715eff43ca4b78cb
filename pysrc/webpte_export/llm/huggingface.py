"""Reads a folder as Hugging Face writes it: config.json, *.safetensors, tokenizer.json."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from webpte_export.errors import ExportError
from webpte_export.llm.source import (
    Shape,
    Source,
    check_architecture,
    in_meta_order,
    with_output,
)

_NAMES = {
    "model.embed_tokens": "tok_embeddings",
    "model.norm": "norm",
    "lm_head": "output",
}
_LAYER_NAMES = {
    "input_layernorm": "attention_norm",
    "self_attn.q_proj": "attention.wq",
    "self_attn.k_proj": "attention.wk",
    "self_attn.v_proj": "attention.wv",
    "self_attn.o_proj": "attention.wo",
    "self_attn.q_norm": "attention.q_norm_fn",
    "self_attn.k_norm": "attention.k_norm_fn",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "feed_forward.w1",
    "mlp.down_proj": "feed_forward.w2",
    "mlp.up_proj": "feed_forward.w3",
}
_LLAMA3_ROPE = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def read_folder(folder: Path) -> Source:
    config = _json(folder / "config.json")
    shape = shape_of(config, folder)
    found: dict[str, Any] = {}
    for file in sorted(folder.glob("*.safetensors")):
        found |= _load(file)
    if not found:
        raise ExportError(f"{folder} has no *.safetensors: the weights are missing.")
    weights = {meta_name(name, folder): tensor.float() for name, tensor in found.items()}
    generation = _json(folder / "generation_config.json", needed=False)
    tokenizer_config = _tokenizer_config(folder)
    eos = generation.get("eos_token_id", config.get("eos_token_id"))
    return Source(
        name=folder.name,
        shape=shape,
        weights=with_output(in_meta_order(weights, shape)),
        tokenizer=_json(folder / "tokenizer.json"),
        tokenizer_config=tokenizer_config,
        bos=generation.get("bos_token_id", config.get("bos_token_id")),
        eos=tuple(eos) if isinstance(eos, list) else () if eos is None else (eos,),
    )


def shape_of(config: dict[str, Any], folder: Path) -> Shape:
    """What config.json says, or an error that says what about it cannot be exported."""
    architecture = config.get("model_type", "?")
    check_architecture(architecture, folder)
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        raise ExportError(f"{folder}: attention in a sliding window is not exported.")
    if config.get("attention_bias") or config.get("mlp_bias"):
        raise ExportError(f"{folder}: attention_bias and mlp_bias are not exported.")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    try:
        heads = config["num_attention_heads"]
        return Shape(
            architecture=architecture,
            dim=config["hidden_size"],
            layers=config["num_hidden_layers"],
            heads=heads,
            kv_heads=config.get("num_key_value_heads") or heads,
            head_dim=config.get("head_dim") or config["hidden_size"] // heads,
            hidden_dim=config["intermediate_size"],
            vocab_size=config["vocab_size"],
            norm_eps=config["rms_norm_eps"],
            rope_theta=float(rope.get("rope_theta") or config.get("rope_theta") or 10000.0),
            max_context=config.get("max_position_embeddings", 2048),
            rope_scale=_rope_scale(rope, folder),
        )
    except KeyError as error:
        raise ExportError(f"{folder / 'config.json'} lacks {error}.") from error


def _rope_scale(rope: dict[str, Any], folder: Path) -> int | None:
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return None
    if kind == "llama3" and all(rope.get(key) == value for key, value in _LLAMA3_ROPE.items()):
        return int(rope["factor"])
    raise ExportError(f"{folder}: positions of kind {kind!r} are not exported ({rope}).")


def meta_name(name: str, where: Path) -> str:
    """`model.layers.3.mlp.up_proj.weight` as `layers.3.feed_forward.w3.weight`."""
    stem, _, suffix = name.rpartition(".")
    layer = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", stem)
    if layer and layer[2] in _LAYER_NAMES:
        return f"layers.{layer[1]}.{_LAYER_NAMES[layer[2]]}.{suffix}"
    if stem in _NAMES:
        return f"{_NAMES[stem]}.{suffix}"
    raise ExportError(f"{where} has a tensor {name!r}, which no Llama-like model has.")


def _load(file: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    tensors: dict[str, Any] = load_file(file)
    return tensors


def _tokenizer_config(folder: Path) -> dict[str, Any]:
    config = _json(folder / "tokenizer_config.json", needed=False)
    template = folder / "chat_template.jinja"
    if "chat_template" not in config and template.is_file():
        config["chat_template"] = template.read_text(encoding="utf-8")
    return config


def _json(path: Path, *, needed: bool = True) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if not needed:
            return {}
        raise ExportError(f"{path} is missing.") from error
    except ValueError as error:
        raise ExportError(f"{path} is not JSON: {error}.") from error
    return content
