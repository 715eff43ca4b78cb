"""Reads a folder in Hugging Face's form: config.json, *.safetensors, tokenizer.json."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from webpte.engine.files.json_reader import Table, read_table, shown
from webpte_export.errors import ExportError
from webpte_export.layer_names import NamedLayer
from webpte_export.llm.source import (
    OtherArchitectureError,
    Shape,
    Source,
    check_architecture,
    check_tensors,
    checked_shape,
    in_meta_order,
    with_output,
)
from webpte_export.llm.weight_files import read_safetensors_header

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
    """Read a Llama-like model; raises OtherArchitectureError for other models."""
    described, files = describe(folder)
    weights: dict[str, Any] = {}
    for file in files:
        weights |= {meta_name(name, file): one.float() for name, one in _load(file).items()}
    assert isinstance(described.shape, Shape)
    weights = in_meta_order(weights, described.shape)
    return replace(described, weights=with_output(weights))


def describe(folder: Path) -> tuple[Source, list[Path]]:
    """Read everything but the weights; also return their files. Raises before reading weights."""
    config = json_table(folder / "config.json")
    shape = shape_of(config.content, folder)
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ExportError(f"{folder} has no *.safetensors: the weights are missing.")
    found: dict[str, tuple[int, ...]] = {}
    for file in files:
        for tensor in read_safetensors_header(file):
            name = meta_name(tensor.name, file)
            if name in found:
                raise ExportError(f"{file} has {tensor.name!r}, which another file also has.")
            found[name] = tensor.shape
    check_tensors(found, shape, folder)
    generation = json_table(folder / "generation_config.json", needed=False)
    tokenizer_config = read_tokenizer_config(folder)
    return Source(
        name=folder.name,
        shape=shape,
        weights={},
        tokenizer=json_table(folder / "tokenizer.json").content,
        tokenizer_config=tokenizer_config,
        bos=next(iter(token_ids("bos_token_id", generation, config)), None),
        eos=token_ids("eos_token_id", generation, config),
    ), files


def token_ids(key: str, *tables: Table) -> tuple[int, ...]:
    """Return a token or several from the first table that has them."""
    table = next((one for one in tables if one.content.get(key) is not None), None)
    if table is None:
        return ()
    found = table.content[key]
    tokens = found if isinstance(found, list) else [found]
    if not all(type(token) is int and 0 <= token < 1 << 31 for token in tokens):
        raise ExportError(f"{table.name}: {key} must be a token's number, got {shown(found)}.")
    return tuple(tokens)


def shape_of(config: Mapping[str, Any], folder: Path) -> Shape:
    """Read the shape from config.json; raises ExportError for unsupported features."""
    there = {key: value for key, value in config.items() if value is not None}
    table = Table(there, str(folder / "config.json"), ExportError)
    architecture = table.text("model_type", "?")
    check_architecture(architecture, folder)
    if there.get("sliding_window") and there.get("use_sliding_window", True):
        raise OtherArchitectureError(f"{folder}: its attention has a sliding window.")
    if there.get("attention_bias") or there.get("mlp_bias"):
        raise OtherArchitectureError(f"{folder}: its linear layers have biases.")
    scaling = "rope_parameters" if there.get("rope_parameters") else "rope_scaling"
    rope = table.table(scaling, Table({}, table.name, ExportError))
    heads, dim = table.integer("num_attention_heads"), table.integer("hidden_size")
    theta = rope.number("rope_theta", 0) or table.number("rope_theta", 0) or 10000.0
    shape = Shape(
        architecture=architecture,
        dim=dim,
        layers=table.integer("num_hidden_layers"),
        heads=heads,
        kv_heads=table.integer("num_key_value_heads", 0) or heads,
        head_dim=table.integer("head_dim", 0) or dim // max(heads, 1),
        hidden_dim=table.integer("intermediate_size"),
        vocab_size=table.integer("vocab_size"),
        norm_eps=float(table.number("rms_norm_eps")),
        rope_theta=float(theta),
        max_context=table.integer("max_position_embeddings", 2048),
        rope_scale=_rope_scale(rope, folder),
    )
    return checked_shape(shape, folder / "config.json")


def _rope_scale(rope: Table, folder: Path) -> int | None:
    given = rope.content
    kind = given.get("rope_type", given.get("type", "default"))
    if kind == "default":
        return None
    if kind == "llama3" and all(given.get(key) == value for key, value in _LLAMA3_ROPE.items()):
        factor = rope.number("factor")
        if factor == int(factor) and 1 <= factor < 1 << 16:
            return int(factor)
    raise OtherArchitectureError(
        f"{folder}: positions of kind {shown(kind)} are not exported ({shown(dict(given))})."
    )


def meta_name(name: str, where: Path) -> str:
    """Convert a name: `model.layers.3.mlp.up_proj.weight` -> `layers.3.feed_forward.w3.weight`."""
    stem, _, suffix = name.rpartition(".")
    layer = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", stem)
    if layer and layer[2] in _LAYER_NAMES:
        return f"layers.{layer[1]}.{_LAYER_NAMES[layer[2]]}.{suffix}"
    if stem in _NAMES:
        return f"{_NAMES[stem]}.{suffix}"
    raise ExportError(f"{where} has a tensor {name!r}, which no Llama-like model has.")


def llama_layer(shape: Shape, name: str) -> NamedLayer | None:
    """Return the transformers library's name for a layer of ExecuTorch's Llama.

    `model.layers.3.attention.wq` -> `model.layers.3.self_attn.q_proj`
    """
    found = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", name)
    if found is None:
        return NamedLayer("lm_head") if name == "model.output" else None
    original = next((old for old, meta in _LAYER_NAMES.items() if meta == found[2]), None)
    if original is None or original.endswith("norm"):
        return None
    heads = {"attention.wq": shape.heads, "attention.wk": shape.kv_heads}.get(found[2])
    pairs = None if heads is None else (heads, shape.head_dim)
    return NamedLayer(f"model.layers.{found[1]}.{original}", pairs)


def _load(file: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    try:
        tensors: dict[str, Any] = load_file(file)
    except Exception as error:  # the package raises no specific class
        raise ExportError(f"{file} cannot be read as safetensors: {error}.") from error
    return tensors


def read_tokenizer_config(folder: Path) -> dict[str, Any]:
    config = dict(json_table(folder / "tokenizer_config.json", needed=False).content)
    template = folder / "chat_template.jinja"
    if "chat_template" not in config and template.is_file():
        try:
            config["chat_template"] = template.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ExportError(f"{template} cannot be read: {error}.") from error
    return config


def json_table(path: Path, *, needed: bool = True) -> Table:
    """Read a JSON file; some configurations contain Infinity, which Python accepts."""
    if path.exists():
        return read_table(path, ExportError, not_finite=True)
    if needed:
        raise ExportError(f"{path} is missing.")
    return Table({}, str(path), ExportError)
