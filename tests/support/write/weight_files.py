"""Writes small models as GGUF and safetensors files, without the formats' libraries."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

DIM, HIDDEN, HEADS, KV_HEADS, TOKENS, LAYERS = 32, 64, 4, 2, 12, 2
HEAD = DIM // HEADS
FIELDS: dict[str, Any] = {
    "general.architecture": "llama",
    "general.license": "mit",
    "llama.block_count": LAYERS,
    "llama.context_length": 64,
    "llama.embedding_length": DIM,
    "llama.feed_forward_length": HIDDEN,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KV_HEADS,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 10000.0,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": [*"abcdefghi", "ab", "<|im_end|>", "cd"],
    "tokenizer.ggml.token_type": [1] * 10 + [3, 1],
    "tokenizer.ggml.merges": ["a b", "c d"],
    "tokenizer.ggml.eos_token_id": 10,
    "tokenizer.ggml.add_bos_token": False,
    "tokenizer.chat_template": "{{ messages }}",
}
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": DIM,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "intermediate_size": HIDDEN,
    "vocab_size": TOKENS,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e4,
    "max_position_embeddings": 64,
    "eos_token_id": 10,
}
SHAPES = {
    "input_layernorm attn_norm": (DIM,),
    "self_attn.q_proj attn_q": (DIM, DIM),
    "self_attn.k_proj attn_k": (KV_HEADS * HEAD, DIM),
    "self_attn.v_proj attn_v": (KV_HEADS * HEAD, DIM),
    "self_attn.o_proj attn_output": (DIM, DIM),
    "post_attention_layernorm ffn_norm": (DIM,),
    "mlp.gate_proj ffn_gate": (HIDDEN, DIM),
    "mlp.up_proj ffn_up": (HIDDEN, DIM),
    "mlp.down_proj ffn_down": (DIM, HIDDEN),
}
OUTER = {"model.embed_tokens token_embd": (TOKENS, DIM), "model.norm output_norm": (DIM,)}


def weights(names: str) -> dict[str, np.ndarray]:
    """Return float32 weights by the names of "gguf" or "safetensors"."""
    at = ("safetensors", "gguf").index(names)
    prefix = ("model.layers.", "blk.")[at]
    shapes = {f"{both.split()[at]}.weight": shape for both, shape in OUTER.items()} | {
        f"{prefix}{number}.{both.split()[at]}.weight": shape
        for number in range(LAYERS)
        for both, shape in SHAPES.items()
    }
    rng = np.random.default_rng(1)
    return {name: rng.random(shape, np.float32) for name, shape in shapes.items()}


def write_gguf(fields: Mapping[str, Any] = FIELDS, alignment: int = 32) -> bytes:
    """Write a GGUF file: matrices are Q8_0 with scales of 1, vectors are F32."""
    data, infos = b"", b""
    tensors = weights("gguf")
    for name, tensor in tensors.items():
        data += bytes(-len(data) % alignment)
        dims = struct.pack(f"<{tensor.ndim}Q", *reversed(tensor.shape))
        kind = 8 if tensor.ndim == 2 else 0
        infos += _text(name) + struct.pack("<I", tensor.ndim) + dims
        infos += struct.pack("<IQ", kind, len(data))
        data += _q8_0(tensor) if kind else tensor.tobytes()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    head += b"".join(_text(name) + _value(value) for name, value in fields.items()) + infos
    return head + bytes(-len(head) % alignment) + data


def _q8_0(tensor: np.ndarray) -> bytes:
    blocks = np.round(tensor * 100).astype(np.int8).reshape(-1, 32)
    scale = np.ones((len(blocks), 1), np.float16).view(np.int8)
    return np.concatenate([scale, blocks], 1).tobytes()


def _text(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(encoded)) + encoded


def _value(value: Any) -> bytes:
    kind, data = _parts(value)
    return struct.pack("<I", kind) + data


def _parts(value: Any) -> tuple[int, bytes]:
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return (4, struct.pack("<I", value)) if 0 <= value < 1 << 32 else _wide(value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, _text(value)
    parts = [_parts(one) for one in value]
    kind = parts[0][0] if parts else 4
    return 9, struct.pack("<IQ", kind, len(parts)) + b"".join(data for _, data in parts)


def _wide(value: int) -> tuple[int, bytes]:
    return 11, struct.pack("<q", value)


def write_safetensors(**changes: Any) -> bytes:
    """Write an F16 safetensors file; `changes` are entries of the header."""
    halves = {name: one.astype(np.float16) for name, one in weights("safetensors").items()}
    return safetensors_bytes(halves, changes)


def safetensors_bytes(
    arrays: Mapping[str, np.ndarray], changes: Mapping[str, Any] | None = None
) -> bytes:
    """Write arrays of floats (uint16: bfloat16) as a safetensors file."""
    kinds = {"float16": "F16", "float32": "F32", "float64": "F64", "uint16": "BF16"}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, array in arrays.items():
        offsets = [len(data), len(data) + array.nbytes]
        dtype = kinds[array.dtype.name]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": offsets}
        data += array.tobytes()
    text = json.dumps({**header, **(changes or {})}).encode()
    return struct.pack("<Q", len(text)) + text + data


def write_folder(folder: Path) -> Path:
    """Write a model's folder in Hugging Face's form."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {}}}))
    (folder / "model.safetensors").write_bytes(write_safetensors())
    return folder
