"""Small decoders with caches of their own kinds give the logits of their models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.exir")
transformers = pytest.importorskip("transformers")

from webpte_export import ExportError  # noqa: E402
from webpte_export.exporter_patches import patch_exporter  # noqa: E402
from webpte_export.llm.decoder import Decoder, tokens_to_compare  # noqa: E402
from webpte_export.llm.mxfp4 import dequantized  # noqa: E402
from webpte_export.llm.other_models import load_model  # noqa: E402

COMMON: dict[str, Any] = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 128,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
LATENT = {
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8,
    "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    "first_k_dense_replace": 1, "n_shared_experts": 1, "n_group": 2, "topk_group": 1,
}  # fmt: skip
LINEAR = ["linear_attention", "full_attention"] * 2
DECODERS: dict[str, dict[str, Any]] = {
    "deepseek_v2": LATENT,
    "deepseek_v3": LATENT,
    # As many heads that all scores are 0, and equal, of no two tokens.
    "deepseek_v32": LATENT | {"index_n_heads": 16, "index_head_dim": 16, "index_topk": 6},
    "minimax": {
        "head_dim": 8, "block_size": 8, "num_local_experts": 4, "num_experts_per_tok": 2,
        "layer_types": LINEAR,
    },
    "kimi_linear": {
        "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8,
        "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
        "linear_head_dim": 8, "linear_num_heads": 4, "layer_types": LINEAR,
    },
    "xlstm": {
        "hidden_size": 128, "num_heads": 2, "num_hidden_layers": 2, "chunk_size": 8,
        "chunkwise_kernel": "chunkwise--native_autograd",
        "sequence_kernel": "native_sequence__native", "step_kernel": "native",
    },
    # Its local attention counts from the end of the keys.
    "gpt_neo": {
        "attention_types": [[["global", "local"], 2]], "num_layers": 4, "num_heads": 4,
        "window_size": 8,
    },
    "doge": {"head_dim": 8, "keep_window_size": 16},
    "diffllama": {"head_dim": 8},
}  # fmt: skip


def made(name: str, **options: Any) -> Any:
    torch.manual_seed(0)
    patch_exporter()
    config = transformers.AutoConfig.for_model(name, **{**COMMON, **options})
    kind = transformers.AutoModelForCausalLM
    model = kind.from_config(config, attn_implementation="eager").eval()
    for key, parameter in model.named_parameters():
        if key.endswith(".A"):  # zeros make all keys of a dynamic mask alike
            torch.nn.init.normal_(parameter)
    return model


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_has_the_logits_of_its_model(name: str) -> None:
    """The decoder compares itself, in pieces, and refuses a model that differs."""
    decoder = Decoder(made(name, **DECODERS[name]), 64)
    assert decoder.caches or decoder.states
    assert not any(bool(value.any()) for key, value in decoder.named_buffers() if "cache" in key)


@pytest.mark.parametrize(("window", "tokens"), [(None, 9), (4, 9), (20, 23), (509, 512), (4096, 9)])
def test_the_comparison_is_longer_than_short_windows(window: int | None, tokens: int) -> None:
    """Otherwise a decoder that ignores the window would look right."""
    model = made("mistral", sliding_window=window)
    assert tokens_to_compare(model.config) == tokens


def test_a_decoder_that_differs_is_refused() -> None:
    """Its state is in its layers."""
    sizes = {"lru_width": 32, "attention_window_size": 16, "head_dim": 8}
    blocks = {"block_types": ["recurrent", "attention"]}
    with pytest.raises(ExportError, match="cannot be given a cache of fixed size: its logits"):
        Decoder(made("recurrent_gemma", **sizes, **blocks), 64)


def test_experts_of_4_bits_are_read_as_stored(tmp_path: Path) -> None:
    """gpt-oss has such files; the library reads them on other hardware, or with other packages."""
    from safetensors.torch import save_file
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    sizes = {"hidden_size": 64, "intermediate_size": 32, "head_dim": 8, "num_hidden_layers": 1}
    model = made("gpt_oss", **sizes, num_local_experts=4, num_experts_per_tok=2)
    weights = {name: value.contiguous() for name, value in model.state_dict().items()}
    expected = dict(weights)
    for name in [name for name in weights if name.endswith(("gate_up_proj", "down_proj"))]:
        experts, inputs, outputs = weights.pop(name).shape
        shape = (experts, outputs, inputs // 32)
        blocks = torch.randint(0, 256, (*shape, 16), dtype=torch.uint8)
        scales = torch.randint(120, 126, shape, dtype=torch.uint8)
        weights |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        expected[name] = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
        assert torch.equal(dequantized(blocks, scales), expected[name])
    model.config.quantization_config = {"quant_method": "mxfp4"}
    model.config.save_pretrained(tmp_path)
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    found = load_model(tmp_path, "AutoModelForCausalLM")
    for name, value in found.state_dict().items():
        assert torch.equal(value, expected[name]), name

    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ExportError, match=r"other hardware \(gptq\).*GGUF"):
        load_model(tmp_path, "AutoModelForCausalLM")
