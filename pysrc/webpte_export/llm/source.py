"""The common form of language models: Meta's names and order of weights, for every file format.

Rotary embeddings rotate pairs of elements. In Meta's order the elements of a pair are adjacent, in
Hugging Face's order half a head apart: rows of q and k (biases and norms, too) are permuted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from webpte_export.errors import ExportError

_LARGEST = {
    "dim": 1 << 20,
    "layers": 1 << 10,
    "heads": 1 << 12,
    "kv_heads": 1 << 12,
    "head_dim": 1 << 16,
    "hidden_dim": 1 << 22,
    "vocab_size": 1 << 24,
    "max_context": 1 << 31,
}
ARCHITECTURES = ("llama", "mistral", "qwen2", "qwen3")  # SmolLM2 calls itself llama


class OtherArchitectureError(ExportError):
    """A model that is not Llama-like, which other code may export."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of a language model for the program's constants."""

    architecture: str
    layers: int
    vocab_size: int
    max_context: int


@dataclass(frozen=True)
class Shape(Sizes):
    """The sizes and settings of a Llama-like model."""

    dim: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden_dim: int
    norm_eps: float
    rope_theta: float
    rope_scale: int | None = None  # Llama 3's rule for long contexts

    @property
    def params(self) -> dict[str, Any]:
        """Arguments of ExecuTorch's ModelArgs."""
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
    """A model, and the content of its tokenizer's files.

    A Llama-like model is its `shape` and its weights by Meta's names (float32). Any other source is
    a `model` of the transformers library, without weights here.
    """

    name: str
    shape: Sizes
    weights: Mapping[str, Any]
    tokenizer: Mapping[str, Any]  # content of tokenizer.json
    tokenizer_config: Mapping[str, Any]  # content of tokenizer_config.json
    bos: int | None
    eos: tuple[int, ...]
    notes: Mapping[str, Any] = field(default_factory=dict)
    model: Any = None


def check_architecture(name: object, where: Path) -> None:
    """Check that an architecture is Llama-like; raises OtherArchitectureError."""
    if name not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise OtherArchitectureError(
            f"{where} holds a model of architecture {name!r}; {known} are known here. Export "
            "others from a folder of Hugging Face's form (config.json, *.safetensors)."
        )


def checked_shape(shape: Shape, where: Path) -> Shape:
    """Check that the sizes are possible; their types are checked before."""
    sizes = {name: getattr(shape, name) for name in _LARGEST}
    for name, size in sizes.items():
        if not 1 <= size <= _LARGEST[name]:
            raise ExportError(
                f"{where}: {name} is {size:,}; from 1 to {_LARGEST[name]:,} is possible."
            )
    if shape.heads % shape.kv_heads or shape.head_dim % 2:
        raise ExportError(
            f"{where}: {shape.heads} heads of {shape.head_dim} elements over {shape.kv_heads} KV "
            "heads: heads must be a multiple of KV heads, and their elements an even number."
        )
    if not (0 < shape.norm_eps < 1 and 0 < shape.rope_theta < 1e15):
        raise ExportError(
            f"{where}: norms with epsilon {shape.norm_eps:g} and a rotary base of "
            f"{shape.rope_theta:g} are not plausible."
        )
    return shape


def check_tensors(found: Mapping[str, tuple[int, ...]], shape: Shape, where: Path) -> None:
    """Check that the tensors, by Meta's names, fit a model of these sizes."""
    outer, layer = _tensor_shapes(shape)
    for name, dims in found.items():
        parts = name.split(".", 2)
        in_layer = parts[0] == "layers" and len(parts) == 3
        number = int(parts[1]) if in_layer and parts[1].isdecimal() and len(parts[1]) < 9 else -1
        known = (layer.get(parts[2]) if number >= 0 else None) if in_layer else outer.get(name)
        if known is None or number >= shape.layers:
            raise ExportError(
                f"{where} has a tensor {name!r}, which a {shape.architecture} of {shape.layers} "
                "layers does not have."
            )
        if dims != known:
            raise ExportError(
                f"{where}: tensor {name!r} is {list(dims)}, but by the model's sizes it should be "
                f"{list(known)}."
            )
    needed = [name for name in outer if name != "output.weight"]
    needed += [
        f"layers.{number}.{name}"
        for number in range(shape.layers)
        for name in layer
        if name.endswith(".weight") and not name.endswith("_norm_fn.weight")
    ]
    if missing := [name for name in needed if name not in found]:
        raise ExportError(
            f"{where} lacks {len(missing)} of {len(needed)} tensors, such as {missing[0]!r}: "
            "perhaps one of several files is missing."
        )


def _tensor_shapes(shape: Shape) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Return shapes of the tensors outside of layers and in a layer, with optional tensors."""
    dim, hidden = shape.dim, shape.hidden_dim
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    table = (shape.vocab_size, dim)
    outer = {"tok_embeddings.weight": table, "norm.weight": (dim,), "output.weight": table}
    layer = {
        "attention_norm.weight": (dim,),
        "attention.wq.weight": (queries, dim),
        "attention.wk.weight": (keys, dim),
        "attention.wv.weight": (keys, dim),
        "attention.wo.weight": (dim, queries),
        "attention.wq.bias": (queries,),
        "attention.wk.bias": (keys,),
        "attention.wv.bias": (keys,),
        "attention.q_norm_fn.weight": (shape.head_dim,),
        "attention.k_norm_fn.weight": (shape.head_dim,),
        "ffn_norm.weight": (dim,),
        "feed_forward.w1.weight": (hidden, dim),
        "feed_forward.w2.weight": (dim, hidden),
        "feed_forward.w3.weight": (hidden, dim),
    }
    return outer, layer


def pairs_together(tensor: Any, heads: int, head_dim: int) -> Any:
    """Permute rows of q or k (or a vector) from Hugging Face's order to Meta's.

    (heads * head_dim, ...): pairs at (i, i + head_dim / 2) move to (2 i, 2 i + 1).
    """
    rest = tensor.shape[1:]
    split = tensor.reshape(heads, 2, head_dim // 2, *rest)
    return split.transpose(1, 2).reshape(heads * head_dim, *rest).contiguous()


def pairs_apart(tensor: Any, heads: int, head_dim: int) -> Any:
    """Permute rows from Meta's order to Hugging Face's: the inverse of `pairs_together`."""
    rest = tensor.shape[1:]
    split = tensor.reshape(heads, head_dim // 2, 2, *rest)
    return split.transpose(1, 2).reshape(heads * head_dim, *rest).contiguous()


def in_meta_order(weights: dict[str, Any], shape: Shape) -> dict[str, Any]:
    """Permute all rows of q and k that rotary embeddings rotate."""
    heads_of = {"wq": shape.heads, "wk": shape.kv_heads, "q_norm_fn": 1, "k_norm_fn": 1}
    moved = dict(weights)
    for name, tensor in weights.items():
        kind = name.split(".")[-2]
        if kind in heads_of:
            moved[name] = pairs_together(tensor, heads_of[kind], shape.head_dim)
    return moved


def with_output(weights: dict[str, Any]) -> dict[str, Any]:
    """Add the output layer if it is the embedding, which files store once."""
    if "output.weight" not in weights:
        weights["output.weight"] = weights["tok_embeddings.weight"].clone()
    return weights


def context_note(asked: int | None, context: int) -> dict[str, str]:
    """Return the report's note on a context that is shorter than requested."""
    if asked is None or asked <= context:
        return {}
    return {
        "max_context": f"{context:,} tokens instead of {asked:,}: the model's positions go no "
        "further, or are computed otherwise in longer texts"
    }
