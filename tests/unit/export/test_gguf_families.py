"""GGUF files of other models than Llamas, written as llama.cpp's converter writes them.

They need the export environment, and are skipped elsewhere: docs/use/export.md.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from webpte_export.exporter_patches import hide_broken_torchvision

torch = pytest.importorskip("torch")
hide_broken_torchvision()  # before transformers, which imports it
transformers = pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")

from data.make.export_decoders import FAMILIES as MODELS  # noqa: E402
from data.make.export_decoders import build  # noqa: E402
from webpte_export import ExportError  # noqa: E402
from webpte_export.llm.from_gguf import read_gguf  # noqa: E402

MODELS["starcoder2"] = ("Starcoder2ForCausalLM", {**MODELS["llama"][1], "sliding_window": 64})
MODELS["stablelm"] = (
    "StableLmForCausalLM",
    {**MODELS["llama"][1], "use_qkv_bias": True, "partial_rotary_factor": 0.5},
)
LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "self_attn.qkv_proj": "attn_qkv",
    "mlp.gate_up_proj": "ffn_up",
    "self_attn.dense": "attn_output",
    "mlp.fc1": "ffn_up",
    "mlp.fc2": "ffn_down",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "ln_1": "attn_norm",
    "ln_2": "ffn_norm",
}
AROUND = {
    **LAYER,
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
OUTER = {
    "model.embed_tokens": "token_embd",
    "transformer.wte": "token_embd",
    "transformer.wpe": "position_embd",
    "model.norm": "output_norm",
    "model.final_layernorm": "output_norm",
    "transformer.ln_f": "output_norm",
    "lm_head": "output",
}


def one_more(name: str, tensor: np.ndarray, _config: Any) -> np.ndarray:
    return tensor + 1 if "norm" in name else tensor


def paired(name: str, tensor: np.ndarray, config: Any) -> np.ndarray:
    """Permute as the converter does for models that it takes for Llamas."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    count = heads.get(name.split(".")[-2])
    if count is None:
        return tensor
    split = tensor.reshape(count, 2, len(tensor) // count // 2, *tensor.shape[1:])
    return split.swapaxes(1, 2).reshape(tensor.shape)


def transposed(name: str, tensor: np.ndarray, _config: Any) -> np.ndarray:
    return tensor.T if ".c_" in name and tensor.ndim == 2 else tensor


def plain(_name: str, tensor: np.ndarray, _config: Any) -> np.ndarray:
    return tensor


Change = Callable[[str, np.ndarray, Any], np.ndarray]
CASES: dict[str, tuple[str, dict[str, str], Change, dict[str, Any]]] = {
    "gemma": ("gemma", LAYER, one_more, {"attention.key_length": 16}),
    "gemma2": (
        "gemma2",
        AROUND,
        one_more,
        {
            "attention.key_length": 16,
            "attention.sliding_window": 8,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
        },
    ),
    "gemma3": (
        "gemma3",
        AROUND,
        one_more,
        {"attention.key_length": 16, "attention.sliding_window": 8, "rope.freq_base": 1e6},
    ),
    "phi": ("phi2", LAYER, plain, {"rope.dimension_count": 8}),
    "phi3": ("phi3", LAYER, plain, {"rope.dimension_count": 16}),
    "gpt2": ("gpt2", LAYER, transposed, {}),
    "starcoder2": ("starcoder2", LAYER, plain, {"attention.sliding_window": 64}),
    "stablelm": ("stablelm", LAYER, plain, {"rope.dimension_count": 8}),
    "olmo2": ("olmo2", AROUND, plain, {}),
    "granite": (
        "granite",
        LAYER,
        paired,
        {
            "attention.scale": 0.2,
            "residual_scale": 0.22,
            "embedding_scale": 12.0,
            "logit_scale": 1.0,
        },
    ),
    "smollm3": ("smollm3", LAYER, paired, {}),
}
# What the exported models have, and GGUF files of these architectures always have the same.
SAME: dict[str, dict[str, Any]] = {
    "gemma2": {"query_pre_attn_scalar": 16},
    "gemma3": {"query_pre_attn_scalar": 16, "_sliding_window_pattern": 6},
    "smollm3": {"no_rope_layer_interval": 4, "use_sliding_window": False},
    "phi": {"partial_rotary_factor": 0.5},
}


def model_of(name: str) -> Any:
    kind, options = MODELS[name]
    MODELS[name] = kind, {**options, **SAME.get(name, {}), "vocab_size": 96}
    try:
        return build(name)
    finally:
        MODELS[name] = kind, options


def write(name: str, model: Any, path: Path, quantized: str | None = None, **extra: Any) -> None:
    """Write a model; matrices of floats, or of a kind of GGUF's."""
    architecture, layer, change, fields = CASES[name]
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    eps = next(
        getattr(config, key)
        for key in ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon")
        if hasattr(config, key)
    )
    theta = 10000.0
    if hasattr(config, "rope_parameters"):
        theta = config.rope_parameters.get("rope_theta") or theta
    described: dict[str, Any] = {
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers,
        "feed_forward_length": getattr(config, "intermediate_size", 4 * config.hidden_size),
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": getattr(
            config, "num_key_value_heads", config.num_attention_heads
        ),
        "attention.layer_norm_rms_epsilon": eps,
        "attention.layer_norm_epsilon": eps,
        "rope.freq_base": float(theta),
        **fields,
        **extra,
    }
    for key, value in described.items():
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32}
        add.get(type(value), writer.add_string)(f"{architecture}.{key}", value)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([f"t{n}" for n in range(96)])
    writer.add_token_merges(["t 1"])
    for full, parameter in model.named_parameters():
        stem, _, suffix = full.rpartition(".")
        inner = stem.split(".", 3)
        own = OUTER[stem] if stem in OUTER else f"blk.{inner[2]}.{layer[inner[3]]}"
        array = change(full, parameter.detach().numpy().astype(np.float32), config)
        array = np.ascontiguousarray(array)
        if quantized is None or array.ndim < 2 or own == "position_embd":
            writer.add_tensor(f"{own}.{suffix}", array)
            continue
        kind = gguf.GGMLQuantizationType[quantized]
        packed = gguf.quantize(array, kind)
        with torch.no_grad():  # the judge computes with the file's rounded weights
            back = gguf.dequantize(packed, kind).reshape(array.shape)
            restored = change_back(name, full, back, config)
            parameter.copy_(torch.from_numpy(restored.copy()))
        writer.add_tensor(f"{own}.{suffix}", packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def change_back(name: str, full: str, array: np.ndarray, config: Any) -> np.ndarray:
    change = CASES[name][2]
    if change is transposed:
        return transposed(full, array, config)
    if change is not paired or full.split(".")[-2] not in ("q_proj", "k_proj"):
        return array
    rows = paired(full, np.arange(len(array))[:, None], config).ravel()
    return array[np.argsort(rows)]


TEXT = torch.randint(0, 96, (1, 20), generator=torch.Generator().manual_seed(3))


def logits(model: Any) -> Any:
    with torch.no_grad():
        return model(input_ids=TEXT, use_cache=False).logits


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", [None, "Q8_0"])
def test_a_file_gives_the_model_that_it_was_made_of(
    name: str, kind: str | None, tmp_path: Path
) -> None:
    model = model_of(name)
    path = tmp_path / "model.gguf"
    write(name, model, path, kind)
    source = read_gguf(path)
    assert source.shape.vocab_size == 96
    assert source.shape.layers == 2
    expected = logits(model)
    found = logits(source.model)
    assert (found - expected).abs().max() < 1e-4 * expected.abs().max()


def test_what_cannot_be_read_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    model = model_of("phi3")
    write("phi3", model, path, **{"rope.scaling.type": "longrope"})
    with pytest.raises(ExportError, match="positions of kind 'longrope'"):
        read_gguf(path)
    write("phi3", model, path, block_count=3)
    with pytest.raises(ExportError, match=r"lacks the tensor 'blk\.2\.attn_"):
        read_gguf(path)
    write("phi3", model, path, block_count=1)
    with pytest.raises(ExportError, match=r"tensors that the model does not have, such as 'blk\.1"):
        read_gguf(path)
    write("phi3", model, path, feed_forward_length=64)
    with pytest.raises(ExportError, match=r"should be \[128, 96\]"):
        read_gguf(path)
    write("phi3", model, path, embedding_length=0)
    with pytest.raises(ExportError):
        read_gguf(path)
