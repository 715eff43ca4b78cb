"""A language model as it was found, in one form: Meta's names and order, whatever the file has.

Rotary embeddings turn pairs of elements. Meta's order has the two of a pair beside each other,
Hugging Face's has them half a head apart: rows of q and k (their biases and norms, too) are moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from webpte_export.errors import ExportError

ARCHITECTURES = ("llama", "mistral", "qwen2", "qwen3")  # SmolLM2 calls itself llama


@dataclass(frozen=True)
class Shape:
    """The sizes and habits of a Llama-like model."""

    architecture: str
    dim: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden_dim: int
    vocab_size: int
    norm_eps: float
    rope_theta: float
    max_context: int
    rope_scale: int | None = None  # Llama 3's rule for long contexts

    @property
    def params(self) -> dict[str, Any]:
        """As ExecuTorch's ModelArgs takes them."""
        norms = self.architecture == "qwen3"
        return {
            "dim": self.dim,
            "n_layers": self.layers,
            "n_heads": self.heads,
            "n_kv_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "hidden_dim": self.hidden_dim,
            "vocab_size": self.vocab_size,
            "norm_eps": self.norm_eps,
            "rope_theta": self.rope_theta,
            "use_scaled_rope": self.rope_scale is not None,
            **({"rope_scale_factor": self.rope_scale} if self.rope_scale else {}),
            "attention_qkv_bias": self.architecture == "qwen2",
            "use_qk_norm": norms,
            "qk_norm_before_rope": norms,
        }


@dataclass(frozen=True)
class Source:
    """Weights by Meta's names (float32), and what the tokenizer's files are to say."""

    name: str
    shape: Shape
    weights: Mapping[str, Any]
    tokenizer: Mapping[str, Any]  # of tokenizer.json
    tokenizer_config: Mapping[str, Any]  # of tokenizer_config.json
    bos: int | None
    eos: tuple[int, ...]
    notes: Mapping[str, Any] = field(default_factory=dict)


def read_source(source: str | Path) -> Source:
    """A GGUF file, or a folder with config.json, *.safetensors and tokenizer.json."""
    path = Path(source)
    if path.is_dir():
        from webpte_export.llm.huggingface import read_folder

        return read_folder(path)
    if path.suffix == ".gguf" and path.is_file():
        from webpte_export.llm.from_gguf import read_gguf

        return read_gguf(path)
    if not path.exists():
        raise ExportError(f"{path}: there is no such file or folder.")
    raise ExportError(
        f"{path} is neither a .gguf file nor a folder with config.json and *.safetensors."
    )


def check_architecture(name: str, where: Path) -> None:
    if name not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise ExportError(
            f"{where} holds a model of architecture {name!r}; export_llm knows {known}. "
            "Others go through webpte_export.export, without a KV cache."
        )


def pairs_together(tensor: Any, heads: int, head_dim: int) -> Any:
    """Rows of q or k (or a vector) from Hugging Face's order to Meta's.

    (heads * head_dim, ...) with the pairs (i, i + head_dim / 2) -> the same with (2 i, 2 i + 1).
    """
    rest = tensor.shape[1:]
    split = tensor.reshape(heads, 2, head_dim // 2, *rest)
    return split.transpose(1, 2).reshape(heads * head_dim, *rest).contiguous()


def in_meta_order(weights: dict[str, Any], shape: Shape) -> dict[str, Any]:
    """All rows of q and k that rotary embeddings touch, moved."""
    heads_of = {"wq": shape.heads, "wk": shape.kv_heads, "q_norm_fn": 1, "k_norm_fn": 1}
    moved = dict(weights)
    for name, tensor in weights.items():
        kind = name.split(".")[-2]
        if kind in heads_of:
            moved[name] = pairs_together(tensor, heads_of[kind], shape.head_dim)
    return moved


def with_output(weights: dict[str, Any]) -> dict[str, Any]:
    """Where the output layer is the embedding, files have it once, and the exporter wants two."""
    if "output.weight" not in weights:
        weights["output.weight"] = weights["tok_embeddings.weight"].clone()
    return weights
