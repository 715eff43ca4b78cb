"""Reads a GGUF file: weights, dequantized, and the tokenizer in its metadata."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from webpte.engine.files.json_reader import Table
from webpte_export.errors import ExportError
from webpte_export.llm.gguf_families import FAMILIES, read_model
from webpte_export.llm.gguf_tokenizer import tokenizer_files
from webpte_export.llm.source import (
    Shape,
    Sizes,
    Source,
    check_architecture,
    check_tensors,
    checked_shape,
    in_meta_order,
    with_output,
)
from webpte_export.llm.weight_files import GgufHeader, StoredTensor, read_gguf_header

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
_IN_META_ORDER = ("llama", "mistral")  # converters to GGUF permute their rows


def read_gguf(path: Path) -> Source:
    """Read a file: a Llama-like model by Meta's names, other models by transformers."""
    import gguf

    header = read_gguf_header(path)
    if header.fields.get("general.architecture") in FAMILIES:
        model, sizes = read_model(header, path, partial(_tensor, gguf, path=path))
        return replace(_source(header, sizes, path), model=model)
    described, stored = describe(header, path)
    weights = {name: _tensor(gguf, tensor, path) for name, tensor in stored.items()}
    if described.shape.architecture not in _IN_META_ORDER:
        assert isinstance(described.shape, Shape)
        weights = in_meta_order(weights, described.shape)
    return replace(described, weights=with_output(weights))


def describe(header: GgufHeader, path: Path) -> tuple[Source, dict[str, StoredTensor]]:
    """Read everything but the weights; also return the tensors by Meta's names.

    Errors are found before the weights are read.
    """
    shape = shape_of(header.fields, path)
    stored = {
        meta_name(tensor.name, path): tensor
        for tensor in header.tensors
        if tensor.name != "rope_freqs.weight"  # follows from the metadata
    }
    check_tensors({name: tensor.shape for name, tensor in stored.items()}, shape, path)
    return _source(header, shape, path), stored


def _source(header: GgufHeader, shape: Sizes, path: Path) -> Source:
    """Return a source without weights."""
    tokenizer, tokenizer_config, eos = tokenizer_files(header.fields, path)
    bos = Table(header.fields, str(path), ExportError).integer("tokenizer.ggml.bos_token_id", None)
    return Source(
        name=path.stem,
        shape=shape,
        weights={},
        tokenizer=tokenizer,
        tokenizer_config=tokenizer_config,
        bos=bos if bos is not None and 0 <= bos < shape.vocab_size else None,
        eos=eos,
        notes={"licence": str(header.fields.get("general.license", "unknown"))},
    )


def shape_of(fields: Mapping[str, Any], path: Path) -> Shape:
    table = Table(fields, str(path), ExportError)
    architecture = table.text("general.architecture", "?")
    check_architecture(architecture, path)
    if table.text(f"{architecture}.rope.scaling.type", "none") != "none":
        raise ExportError(f"{path}: scaled positions are exported from safetensors only.")

    def size(name: str, default: int | None = None) -> int:
        key = f"{architecture}.{name}"
        return table.integer(key) if default is None else table.integer(key, default)

    def number(name: str, *default: float) -> float:
        return float(table.number(f"{architecture}.{name}", *default))

    heads, dim = size("attention.head_count"), size("embedding_length")
    tokens = table.listed("tokenizer.ggml.tokens", [])
    shape = Shape(
        architecture=architecture,
        dim=dim,
        layers=size("block_count"),
        heads=heads,
        kv_heads=size("attention.head_count_kv", heads),
        head_dim=size("attention.key_length", dim // max(heads, 1)),
        hidden_dim=size("feed_forward_length"),
        vocab_size=size("vocab_size", len(tokens) or None),
        # Stored as a float32: 9.999999747378752e-06 is 1e-5.
        norm_eps=float(f"{number('attention.layer_norm_rms_epsilon'):.6g}"),
        rope_theta=number("rope.freq_base", 10000.0),
        max_context=size("context_length"),
    )
    return checked_shape(shape, path)


def meta_name(name: str, path: Path) -> str:
    """Convert a name: `blk.3.ffn_up.weight` -> `layers.3.feed_forward.w3.weight`."""
    stem, _, suffix = name.rpartition(".")
    parts = stem.split(".")
    if len(parts) == 3 and parts[0] == "blk" and parts[2] in _LAYER_NAMES:
        return f"layers.{parts[1]}.{_LAYER_NAMES[parts[2]]}.{suffix}"
    if stem in _NAMES:
        return f"{_NAMES[stem]}.{suffix}"
    raise ExportError(f"{path} has a tensor {name!r}, which no Llama-like model has.")


def _tensor(gguf: Any, tensor: StoredTensor, path: Path) -> Any:
    """Convert a tensor to float32. The file is mapped, not read into memory as a whole."""
    import numpy as np
    import torch

    rows, last = tensor.shape[:-1], tensor.size // math.prod(tensor.shape[:-1])
    try:
        stored = np.memmap(path, np.uint8, "r", tensor.start, (*rows, last))
        values = gguf.dequantize(stored, gguf.GGMLQuantizationType(tensor.number))
    except (OSError, ValueError, NotImplementedError) as error:
        raise ExportError(
            f"{path}: tensor {tensor.name!r} ({tensor.kind}) cannot be read: {error}."
        ) from error
    return torch.from_numpy(np.array(values, np.float32).reshape(tensor.shape))
