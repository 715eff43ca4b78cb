"""Reads a GGUF file: weights, dequantized, and the tokenizer in its metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from webpte_export.errors import ExportError
from webpte_export.llm.gguf_tokenizer import tokenizer_files
from webpte_export.llm.source import (
    Shape,
    Source,
    check_architecture,
    in_meta_order,
    with_output,
)

_NAMES = {"token_embd": "tok_embeddings", "output_norm": "norm", "output": "output"}
_LAYER_NAMES = {
    "attn_norm": "attention_norm",
    "attn_q": "attention.wq",
    "attn_k": "attention.wk",
    "attn_v": "attention.wv",
    "attn_output": "attention.wo",
    "attn_q_norm": "attention.q_norm_fn",
    "attn_k_norm": "attention.k_norm_fn",
    "ffn_norm": "ffn_norm",
    "ffn_gate": "feed_forward.w1",
    "ffn_down": "feed_forward.w2",
    "ffn_up": "feed_forward.w3",
}
_IN_META_ORDER = ("llama", "mistral")  # converters to GGUF move the rows of these


def read_gguf(path: Path) -> Source:
    import gguf

    try:
        reader = gguf.GGUFReader(path)
    except (ValueError, OSError) as error:
        raise ExportError(f"{path} cannot be read as GGUF: {error}.") from error
    fields = {name: field.contents() for name, field in reader.fields.items()}
    shape = shape_of(fields, path)
    weights = {
        meta_name(tensor.name, path): _tensor(gguf, tensor)
        for tensor in reader.tensors
        if tensor.name != "rope_freqs.weight"  # follows from the metadata
    }
    if shape.architecture not in _IN_META_ORDER:
        weights = in_meta_order(weights, shape)
    tokenizer, tokenizer_config, eos = tokenizer_files(fields, path)
    return Source(
        name=path.stem,
        shape=shape,
        weights=with_output(weights),
        tokenizer=tokenizer,
        tokenizer_config=tokenizer_config,
        bos=fields.get("tokenizer.ggml.bos_token_id"),
        eos=eos,
        notes={"licence": str(fields.get("general.license", "unknown"))},
    )


def shape_of(fields: dict[str, Any], path: Path) -> Shape:
    architecture = fields.get("general.architecture", "?")
    check_architecture(architecture, path)

    def get(name: str, default: Any = None) -> Any:
        value = fields.get(f"{architecture}.{name}", default)
        if value is None:
            raise ExportError(f"{path}: {architecture}.{name} is missing from the metadata.")
        return value

    if fields.get(f"{architecture}.rope.scaling.type", "none") != "none":
        raise ExportError(f"{path}: scaled positions are exported from safetensors only.")
    heads, dim = get("attention.head_count"), get("embedding_length")
    return Shape(
        architecture=architecture,
        dim=dim,
        layers=get("block_count"),
        heads=heads,
        kv_heads=get("attention.head_count_kv", heads),
        head_dim=get("attention.key_length", dim // heads),
        hidden_dim=get("feed_forward_length"),
        vocab_size=get("vocab_size", len(fields.get("tokenizer.ggml.tokens", ())) or None),
        # Stored as a float32: 9.999999747378752e-06 is 1e-5.
        norm_eps=float(f"{get('attention.layer_norm_rms_epsilon'):.6g}"),
        rope_theta=float(get("rope.freq_base", 10000.0)),
        max_context=get("context_length"),
    )


def meta_name(name: str, path: Path) -> str:
    """`blk.3.ffn_up.weight` as `layers.3.feed_forward.w3.weight`."""
    stem, _, suffix = name.rpartition(".")
    parts = stem.split(".")
    if len(parts) == 3 and parts[0] == "blk" and parts[2] in _LAYER_NAMES:
        return f"layers.{parts[1]}.{_LAYER_NAMES[parts[2]]}.{suffix}"
    if stem in _NAMES:
        return f"{_NAMES[stem]}.{suffix}"
    raise ExportError(f"{path} has a tensor {name!r}, which no Llama-like model has.")


def _tensor(gguf: Any, tensor: Any) -> Any:
    """As float32; GGUF lists sizes from the innermost on."""
    import numpy as np
    import torch

    values = gguf.dequantize(tensor.data, tensor.tensor_type)
    shape = [int(size) for size in reversed(tensor.shape)]
    return torch.from_numpy(np.array(values, np.float32).reshape(shape))
