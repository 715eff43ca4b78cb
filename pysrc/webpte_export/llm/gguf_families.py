"""Reads GGUF files of models other than Llamas into models of the transformers library.

A row of the table maps the metadata of an architecture to a config of transformers, and lists the
changes of weights by the converter to GGUF. Names of tensors come from the gguf library's table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from webpte.engine.files.json_reader import Table
from webpte_export.errors import ExportError
from webpte_export.llm.source import Sizes, pairs_apart
from webpte_export.llm.weight_files import GgufHeader, StoredTensor

Fields = Callable[..., Any]  # reads a field of an architecture by name, with an optional default
_UNUSED = ("rope_freqs.weight",)  # follow from the metadata


@dataclass(frozen=True)
class GgufFamily:
    """An architecture of GGUF files.

    model_type   the type in transformers
    config       entries of its config: metadata's name, or a function of the metadata
    fixed        entries that the metadata does not have
    one_less     norms are stored with 1 added
    paired       rows of q and k are in Meta's order, not in the library's
    transposed   names of layers with transposed weights in the library
    """

    model_type: str
    config: Mapping[str, str | Callable[[Fields], Any]]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    one_less: bool = False
    paired: bool = False
    transposed: tuple[str, ...] = ()


def _head_dim(of: Fields) -> int:
    found = of("attention.key_length", 0) or of("embedding_length") // of("attention.head_count")
    return int(found)


def _kv_heads(of: Fields) -> int:
    return int(of("attention.head_count_kv", 0) or of("attention.head_count"))


def _rotated_part(of: Fields) -> float:
    """Return the part of each head that is rotated."""
    whole = _head_dim(of)
    return float(of("rope.dimension_count", whole)) / whole


def _theta(of: Fields) -> float:
    return float(of("rope.freq_base", 10000.0))


def _window(of: Fields) -> int | None:
    return int(of("attention.sliding_window", 0)) or None


def _query_scale(of: Fields, large: int) -> int:
    """Return the number whose root divides the queries; the largest model has a special rule."""
    if of("block_count") == large:
        return int(of("embedding_length") // of("attention.head_count"))
    return _head_dim(of)


_SIZES: dict[str, str | Callable[[Fields], Any]] = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": _kv_heads,
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
}
_ROOT = {"rms_norm_eps": "attention.layer_norm_rms_epsilon"}
_LAYER_NORM = "attention.layer_norm_epsilon"
_LLAMA = {**_SIZES, **_ROOT, "rope_parameters": lambda of: _rope(_theta(of))}
_GEMMA = {**_LLAMA, "head_dim": _head_dim}
_CAPPED = {
    "attn_logit_softcapping": lambda of: of("attn_logit_softcapping", 0.0) or None,
    "final_logit_softcapping": lambda of: of("final_logit_softcapping", 0.0) or None,
    "sliding_window": _window,
}


def _rope(theta: float, **more: Any) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": theta, **more}


def _gemma3_rope(of: Fields) -> dict[str, Any]:
    kind = of("rope.scaling.type", "none")
    whole: dict[str, Any] = {"rope_type": "default", "rope_theta": _theta(of)}
    if kind == "linear":
        whole |= {"rope_type": "linear", "factor": float(of("rope.scaling.factor"))}
    return {"full_attention": whole, "sliding_attention": _rope(10000.0)}


FAMILIES: dict[str, GgufFamily] = {
    "gemma": GgufFamily("gemma", _GEMMA, one_less=True),
    "gemma2": GgufFamily(
        "gemma2",
        {**_GEMMA, **_CAPPED, "query_pre_attn_scalar": lambda of: _query_scale(of, 46)},
        one_less=True,
    ),
    "gemma3": GgufFamily(
        "gemma3_text",
        {
            **_GEMMA,
            "final_logit_softcapping": _CAPPED["final_logit_softcapping"],
            "attn_logit_softcapping": _CAPPED["attn_logit_softcapping"],
            "sliding_window": _window,
            "query_pre_attn_scalar": lambda of: _query_scale(of, 62),
            "rope_parameters": _gemma3_rope,
        },
        one_less=True,
    ),
    "phi2": GgufFamily(
        "phi",
        {
            **_SIZES,
            "layer_norm_eps": _LAYER_NORM,
            "rope_parameters": lambda of: _rope(
                _theta(of), partial_rotary_factor=_rotated_part(of)
            ),
        },
    ),
    "phi3": GgufFamily("phi3", {**_LLAMA, "sliding_window": _window}),
    "gpt2": GgufFamily(
        "gpt2",
        {
            "n_embd": "embedding_length",
            "n_layer": "block_count",
            "n_head": "attention.head_count",
            "n_inner": "feed_forward_length",
            "n_positions": "context_length",
            "layer_norm_epsilon": _LAYER_NORM,
        },
        transposed=("c_attn", "c_proj", "c_fc"),
    ),
    "starcoder2": GgufFamily(
        "starcoder2",
        {
            **_SIZES,
            "norm_epsilon": _LAYER_NORM,
            "sliding_window": _window,
            "rope_parameters": lambda of: _rope(_theta(of)),
        },
    ),
    "stablelm": GgufFamily(
        "stablelm",
        {
            **_SIZES,
            "layer_norm_eps": _LAYER_NORM,
            "use_parallel_residual": lambda of: bool(of("use_parallel_residual", False)),
            "rope_parameters": lambda of: _rope(
                _theta(of), partial_rotary_factor=_rotated_part(of)
            ),
        },
    ),
    "olmo2": GgufFamily("olmo2", _LLAMA),
    "granite": GgufFamily(
        "granite",
        {
            **_LLAMA,
            "embedding_multiplier": "embedding_scale",
            "residual_multiplier": "residual_scale",
            "attention_multiplier": "attention.scale",
            "logits_scaling": "logit_scale",
        },
        paired=True,
    ),
    "smollm3": GgufFamily(
        "smollm3", _LLAMA, {"no_rope_layer_interval": 4, "use_sliding_window": False}, paired=True
    ),
}


def read_model(
    header: GgufHeader, path: Path, tensor_of: Callable[[StoredTensor], Any]
) -> tuple[Any, Sizes]:
    """Build a file's model with weights from `tensor_of`; return the model and its sizes."""
    import torch
    import transformers

    architecture = str(header.fields["general.architecture"])
    family = FAMILIES[architecture]
    stored = {one.name: one for one in header.tensors if one.name not in _UNUSED}
    config = _config(header, family, architecture, stored, path)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="eager"
    )
    weights = _weights(model, family, architecture, stored, path, tensor_of)
    model.load_state_dict(weights, strict=False, assign=True)
    model.tie_weights()
    sizes = Sizes(
        architecture=config.model_type,
        layers=config.num_hidden_layers,
        vocab_size=config.vocab_size,
        max_context=config.max_position_embeddings,
    )
    return model.eval(), sizes


def _config(
    header: GgufHeader,
    family: GgufFamily,
    architecture: str,
    stored: Mapping[str, StoredTensor],
    path: Path,
) -> Any:
    import transformers

    table = Table(header.fields, str(path), ExportError)

    def of(name: str, *default: Any) -> Any:
        key = f"{architecture}.{name}"
        if default and key not in header.fields:
            return default[0]
        if isinstance(default[0] if default else None, str):
            return table.text(key)
        return header.fields[key] if isinstance(header.fields.get(key), bool) else table.number(key)

    kind = of("rope.scaling.type", "none")
    if kind not in ("none", "linear") or (kind == "linear" and architecture != "gemma3"):
        raise ExportError(
            f"{path}: positions of kind {kind!r} are exported from the safetensors folder only."
        )
    if any(name.startswith("rope_factors") for name in stored):
        raise ExportError(f"{path}: scaled positions are exported from safetensors only.")
    entries: dict[str, Any] = {
        key: rule(of) if callable(rule) else of(rule) for key, rule in family.config.items()
    }
    for key, value in entries.items():
        if key.endswith(("eps", "epsilon")):
            entries[key] = float(f"{value:.6g}")  # stored as a float32: 9.999999747378752e-06
    _check_sizes(entries, path)
    embedding = stored.get("token_embd.weight")
    if embedding is None:
        raise ExportError(f"{path} has no tensor 'token_embd.weight'.")
    return transformers.AutoConfig.for_model(
        family.model_type,
        **{**family.fixed, **entries},
        pad_token_id=None,  # its row of the embedding is an ordinary row
        vocab_size=embedding.shape[0],
        tie_word_embeddings="output.weight" not in stored,
        **_found_in(stored, family),
    )


def _check_sizes(entries: Mapping[str, Any], path: Path) -> None:
    for key, value in entries.items():
        if isinstance(value, int) and not isinstance(value, bool) and not 0 < value < 1 << 24:
            raise ExportError(f"{path}: {key} is {value:,}, which is not plausible.")


def _found_in(stored: Mapping[str, StoredTensor], family: GgufFamily) -> dict[str, Any]:
    """Return the config entries that follow from which tensors exist."""
    biased = "blk.0.attn_q.bias" in stored
    return {
        "starcoder2": {"use_bias": biased},
        "stablelm": {
            "use_qkv_bias": biased,
            "qk_layernorm": any(name.startswith("blk.0.attn_q_norm") for name in stored),
        },
        "smollm3": {"attention_bias": biased},
        "granite": {"attention_bias": biased},
        "olmo2": {"attention_bias": biased},
    }.get(family.model_type, {})


def _weights(
    model: Any,
    family: GgufFamily,
    architecture: str,
    stored: Mapping[str, StoredTensor],
    path: Path,
    tensor_of: Callable[[StoredTensor], Any],
) -> dict[str, Any]:
    """Read the model's weights by the model's names; raise for unused tensors of the file."""
    import gguf

    numbers = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    table = gguf.get_tensor_name_map(numbers[architecture], model.config.num_hidden_layers)
    parameters = dict(model.named_parameters())
    heads = {"q_proj": model.config.num_attention_heads} if family.paired else {}
    if family.paired:
        heads["k_proj"] = model.config.num_key_value_heads
    weights, used = dict[str, Any](), set[str]()
    for name, parameter in parameters.items():
        stem, _, suffix = name.rpartition(".")
        own = f"{table.get_name(stem)}.{suffix}"
        if own not in stored:
            raise ExportError(f"{path} lacks the tensor {own!r} ({name}).")
        tensor = tensor_of(stored[own])
        layer = stem.rpartition(".")[2]
        if layer in family.transposed and suffix == "weight":
            tensor = tensor.T.contiguous()
        if family.one_less and "norm" in layer:
            tensor = tensor - 1
        if layer in heads:
            tensor = pairs_apart(tensor, heads[layer], len(tensor) // heads[layer])
        if tensor.shape != parameter.shape:
            raise ExportError(
                f"{path}: tensor {own!r} is {list(tensor.shape)}, but by the model's sizes it "
                f"should be {list(parameter.shape)}."
            )
        weights[name] = tensor
        used.add(own)
    _check_all_used(stored, used, path)
    return weights


def _check_all_used(stored: Iterable[str], used: set[str], path: Path) -> None:
    others = [name for name in stored if name not in used]
    if others:
        raise ExportError(
            f"{path} has {len(others)} tensors that the model does not have, such as {others[0]!r}."
        )
