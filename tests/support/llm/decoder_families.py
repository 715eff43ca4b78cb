"""Language models with a cache: exported as `serve.py export` does, and run token by token."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import webpte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.llm import Generator
from webpte_export.exporter import Clock
from webpte_export.llm.export import export_source
from webpte_export.llm.source import Sizes, Source

_CHARACTERS = [chr(code) for code in range(32, 127)]
_SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
VOCABULARY = len(_SPECIAL) + len(_CHARACTERS)
CONTEXT = 64

_ONE = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 1}
_DECODER = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2}
_DECODER |= {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48}
_DECODER |= {"max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1}
_DECODER |= {"eos_token_id": 2}
_GPT = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
_GPT |= {"bos_token_id": 1, "eos_token_id": 2}
_NO_GROUPS = {key: value for key, value in _DECODER.items() if key != "num_key_value_heads"}
_MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
_LINEAR = {"layer_types": ["linear_attention", "full_attention"], "head_dim": 8}
_LINEAR |= {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8}
_LINEAR |= {"linear_value_head_dim": 8, "linear_conv_kernel_dim": 4}
_ALIBI = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}

_LATENT = {
    **_NO_GROUPS,
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
}
_ROUTED = {
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
}
_MAMBA2 = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 8,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 8,
}
_TYPES = {"layer_types": ["linear_attention", "full_attention"], "head_dim": 8}
_SLIDE = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8}


@dataclass(frozen=True)
class Family:
    """One family of models: the library's class for it, and a small configuration."""

    name: str
    stem: str
    options: dict[str, Any] = field(default_factory=dict)
    note: str = ""

    def __str__(self) -> str:
        return self.name

    def model(self) -> Any:
        """Build the model with random weights."""
        import torch
        import transformers

        kind = getattr(transformers, f"{self.stem}ForCausalLM", None)
        kind = kind or getattr(transformers, f"{self.stem}LMHeadModel")
        torch.manual_seed(0)
        config = kind.config_class(**self.options)
        config._attn_implementation = "eager"
        model = kind(config).eval()
        for parameter in model.parameters():
            if parameter.dim() > 1 or not bool(parameter.any()):  # zeros would hide their use
                torch.nn.init.normal_(parameter, std=0.15)
        return model


FAMILIES = (
    Family("llama", "Llama", _DECODER),
    Family("mistral", "Mistral", {**_DECODER, "sliding_window": 8}, "sliding window"),
    Family("ministral3", "Ministral3", {**_DECODER, "head_dim": 8}),
    Family("qwen2", "Qwen2", _DECODER),
    Family("qwen3", "Qwen3", {**_DECODER, "head_dim": 8}),
    Family("gemma", "Gemma", {**_DECODER, "head_dim": 16}),
    Family("gemma2", "Gemma2", {**_DECODER, "head_dim": 16, "sliding_window": 8}, "window, soft cap"),
    Family("gemma3", "Gemma3", {**_DECODER, "head_dim": 16, "sliding_window": 8}, "sliding window"),
    Family("phi", "Phi", _DECODER),
    Family("phi3", "Phi3", _DECODER, "Phi-4, too"),
    Family("olmo", "Olmo", _DECODER),
    Family("olmo2", "Olmo2", _DECODER),
    Family("olmo3", "Olmo3", {**_DECODER, "sliding_window": 8}, "sliding window"),
    Family("granite", "Granite", {**_DECODER, "attention_multiplier": 0.2}),
    Family("smollm3", "SmolLM3", _DECODER),
    Family("starcoder2", "Starcoder2", _DECODER),
    Family("stablelm", "StableLm", _DECODER),
    Family("cohere", "Cohere", _DECODER),
    Family("cohere2", "Cohere2", {**_DECODER, "sliding_window": 8}, "sliding window"),
    Family("nemotron", "Nemotron", _DECODER),
    Family("glm", "Glm", {**_DECODER, "head_dim": 8}),
    Family("glm4", "Glm4", {**_DECODER, "head_dim": 8}),
    Family("exaone4", "Exaone4", {**_DECODER, "sliding_window": 8}, "sliding window"),
    Family("helium", "Helium", {**_DECODER, "head_dim": 8}),
    Family("ernie4_5", "Ernie4_5", {**_DECODER, "head_dim": 8}),
    Family("hunyuan_v1_dense", "HunYuanDenseV1", {**_DECODER, "head_dim": 8}),
    Family("seed_oss", "SeedOss", {**_DECODER, "head_dim": 8}),
    Family("arcee", "Arcee", _DECODER),
    Family("gpt2", "GPT2", _GPT),
    Family("gpt_bigcode", "GPTBigCode", _GPT),
    Family("gpt_neox", "GPTNeoX", _NO_GROUPS, "Pythia"),
    Family("opt", "OPT", {**_NO_GROUPS, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    Family("biogpt", "BioGpt", _NO_GROUPS),
    Family("gptj", "GPTJ", {**_GPT, "rotary_dim": 4}),
    Family("codegen", "CodeGen", {**_GPT, "rotary_dim": 4}),
    Family("gpt_neo", "GPTNeo", {"vocab_size": VOCABULARY, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 128, "window_size": 8, "bos_token_id": 1, "eos_token_id": 2}, "local attention"),
    Family("bloom", "Bloom", {**_ALIBI, "hidden_size": 32, "n_layer": 2, "n_head": 4}, "ALiBi"),
    Family("mpt", "Mpt", {**_ALIBI, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 128}, "ALiBi"),
    Family("falcon", "Falcon", {**_NO_GROUPS, "new_decoder_architecture": False}),
    Family("falcon_alibi", "Falcon", {**_NO_GROUPS, "alibi": True, "multi_query": False}, "ALiBi"),
    Family("mixtral", "Mixtral", {**_DECODER, "num_local_experts": 4}, "experts"),
    Family("qwen2_moe", "Qwen2Moe", {**_DECODER, **_MOE, "shared_expert_intermediate_size": 32}, "experts"),
    Family("qwen3_moe", "Qwen3Moe", {**_DECODER, **_MOE, "head_dim": 8}, "experts"),
    Family("olmoe", "Olmoe", {**_DECODER, **_MOE}, "experts"),
    Family("phimoe", "Phimoe", {**_DECODER, "num_local_experts": 4}, "experts"),
    Family("granitemoe", "GraniteMoe", {**_DECODER, "num_local_experts": 4}, "experts"),
    Family("gpt_oss", "GptOss", {**_DECODER, "num_local_experts": 4, "head_dim": 8, "sliding_window": 8}, "experts, sinks"),
    Family("deepseek_v3", "DeepseekV3", {**_NO_GROUPS, "num_key_value_heads": 4, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "moe_intermediate_size": 24, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "first_k_dense_replace": 1}, "experts, latent attention"),
    Family("mamba", "Mamba", {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}, "state"),
    Family("falcon_mamba", "FalconMamba", {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}, "state"),
    Family("mamba2", "Mamba2", {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 8}, "state"),
    Family("qwen3_next", "Qwen3Next", {**_DECODER, **_MOE, **_LINEAR, "shared_expert_intermediate_size": 32}, "gated delta rule, experts"),
    Family("qwen3_5", "Qwen3_5", {**_DECODER, **_LINEAR, "head_dim": 16}, "gated delta rule"),
    Family("lfm2", "Lfm2", {**_DECODER, "layer_types": ["conv", "full_attention"]}, "convolution"),
    Family("falcon_h1", "FalconH1", {**_DECODER, "head_dim": 8, "mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_chunk_size": 8}, "Mamba 2 and attention"),
    Family("granitemoehybrid", "GraniteMoeHybrid", {**_DECODER, "layer_types": ["mamba", "attention"], "num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 32, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_chunk_size": 8}, "Mamba 2, attention, experts"),
    Family("jamba", "Jamba", {**_DECODER, "num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1, "mamba_d_state": 8, "mamba_dt_rank": 4, "use_mamba_kernels": False}, "Mamba, attention, experts"),
    Family("deepseek_v2", "DeepseekV2", {**_LATENT, **_ROUTED}, "experts, latent attention"),
    Family("deepseek_v32", "DeepseekV32", {**_LATENT, **_ROUTED, "index_n_heads": 16, "index_head_dim": 16, "index_topk": 6}, "sparse attention"),
    Family("glm4_moe_lite", "Glm4MoeLite", {**_LATENT, **_ROUTED}, "latent attention"),
    Family("youtu", "Youtu", _LATENT, "latent attention"),
    Family("minicpm3", "MiniCPM3", _LATENT, "latent attention"),
    Family("longcat_flash", "LongcatFlash", {**_LATENT, "n_routed_experts": 4, "ffn_hidden_size": 48, "expert_ffn_hidden_size": 16, "zero_expert_num": 2, "num_layers": 2, "moe_topk": 2}, "two attentions"),
    Family("llama4", "Llama4", {**_DECODER, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 1, "intermediate_size_mlp": 48, "interleave_moe_layer_step": 2, "attention_chunk_size": 32}, "experts"),
    Family("recurrent_gemma", "RecurrentGemma", {**_DECODER, "lru_width": 32, "attention_window_size": 16, "block_types": ["recurrent", "attention"], "head_dim": 8}, "state"),
    Family("minimax", "MiniMax", {**_DECODER, **_TYPES, "block_size": 8, "num_local_experts": 4, "num_experts_per_tok": 2}, "linear attention"),
    Family("minimax_m2", "MiniMaxM2", {**_DECODER, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2}, "experts"),
    Family("kimi_linear", "KimiLinear", {**_LATENT, **_TYPES, "head_dim": None, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "linear_head_dim": 8, "linear_num_heads": 4}, "delta attention, experts"),
    Family("xlstm", "xLSTM", {"vocab_size": VOCABULARY, "hidden_size": 128, "num_heads": 2, "num_hidden_layers": 2, "chunk_size": 8, "chunkwise_kernel": "chunkwise--native_autograd", "sequence_kernel": "native_sequence__native", "step_kernel": "native", "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}, "state"),
    Family("doge", "Doge", {**_DECODER, "head_dim": 8, "keep_window_size": 32}, "dynamic mask"),
    Family("gemma3n", "Gemma3n", {**_DECODER, **_SLIDE, "head_dim": 8, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": VOCABULARY, "laurel_rank": 4, "altup_num_inputs": 2, "num_kv_shared_layers": 0, "activation_sparsity_pattern": [0.5, 0.0], "intermediate_size": [48, 48]}, "inputs per layer"),
    Family("gemma4", "Gemma4", {**_DECODER, **_SLIDE, "head_dim": 8, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": VOCABULARY, "global_head_dim": 16, "num_kv_shared_layers": 0}, "inputs per layer"),
    Family("diffllama", "DiffLlama", {**_DECODER, "head_dim": 8}, "differential attention"),
    Family("bamba", "Bamba", {**_DECODER, **_MAMBA2, "attn_layer_indices": [1]}, "Mamba 2, attention"),
    Family("nemotron_h", "NemotronH", {**_DECODER, "head_dim": 8, "layers_block_type": ["mamba", "attention"], "mamba_num_heads": 8, "mamba_head_dim": 8, "ssm_state_size": 8, "n_groups": 1, "chunk_size": 8, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}, "Mamba 2, attention"),
    Family("zamba2", "Zamba2", {**_DECODER, "num_key_value_heads": 4, "mamba_d_state": 8, "n_mamba_heads": 8, "mamba_headdim": 8, "mamba_ngroups": 1, "chunk_size": 8, "layers_block_type": ["mamba", "hybrid"], "hybrid_layer_ids": [1], "num_mem_blocks": 1, "adapter_rank": 4}, "Mamba 2, attention"),
    Family("olmo_hybrid", "OlmoHybrid", {**_DECODER, **_LINEAR}, "gated delta rule"),
    Family("apertus", "Apertus", _DECODER),
    Family("bitnet", "BitNet", _DECODER),
    Family("cwm", "Cwm", {**_DECODER, "sliding_window": 8}),
    Family("dots1", "Dots1", {**_DECODER, **_ROUTED, "n_group": 1}, "experts"),
    Family("ernie4_5_moe", "Ernie4_5_Moe", {**_DECODER, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 16}, "experts"),
    Family("exaone_moe", "ExaoneMoe", {**_DECODER, **_MOE, "sliding_window": 8}, "experts"),
    Family("flex_olmo", "FlexOlmo", {**_DECODER, **_MOE}, "experts"),
    Family("glm4_moe", "Glm4Moe", {**_DECODER, **_ROUTED, "n_group": 1, "head_dim": 8}, "experts"),
    Family("hunyuan_v1_moe", "HunYuanMoEV1", {**_DECODER, "head_dim": 8, "num_experts": 4, "moe_topk": 2}, "experts"),
    Family("jais2", "Jais2", _DECODER),
    Family("lfm2_moe", "Lfm2Moe", {**_DECODER, **_MOE, "layer_types": ["conv", "full_attention"], "num_dense_layers": 1}, "convolution, experts"),
    Family("ministral", "Ministral", {**_DECODER, "head_dim": 8, "sliding_window": 8}),
    Family("modernbert_decoder", "ModernBertDecoder", {**_NO_GROUPS, "local_attention": 8}),
    Family("nanochat", "NanoChat", _DECODER),
    Family("persimmon", "Persimmon", _NO_GROUPS),
    Family("phi4_multimodal", "Phi4Multimodal", _DECODER),
    Family("solar_open", "SolarOpen", {**_DECODER, **_ROUTED, "n_group": 1, "head_dim": 8}, "experts"),
    Family("vaultgemma", "VaultGemma", {**_DECODER, "head_dim": 8, "sliding_window": 8}),
    Family("xglm", "XGLM", {"vocab_size": VOCABULARY, "d_model": 32, "attention_heads": 4, "ffn_dim": 48, "num_layers": 2, "max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}),
    Family("granitemoeshared", "GraniteMoeShared", {**_DECODER, "num_local_experts": 4, "shared_intermediate_size": 24}, "experts"),
    Family("aria_text", "AriaText", {**_DECODER, "moe_num_experts": 4, "moe_topk": 2, "moe_num_shared_experts": 1}, "experts"),
    Family("jetmoe", "JetMoe", {**_DECODER, "kv_channels": 8, "num_local_experts": 4, "num_experts_per_tok": 2}, "experts"),
    Family("hyperclovax", "HyperCLOVAX", _DECODER),
    Family("gpt_neox_japanese", "GPTNeoXJapanese", {**_NO_GROUPS, "intermediate_multiple_size": 2}),
    Family("openai_gpt", "OpenAIGPT", _GPT),
    Family("ctrl", "CTRL", {**_GPT, "dff": 48}),
    Family("bailing_hybrid", "BailingHybrid", {**_LATENT, **_TYPES, **_MOE}, "linear attention"),
    Family("mimo_v2_flash", "MiMoV2Flash", {**_DECODER, **_SLIDE, **_ROUTED, "n_group": 1, "head_dim": 8, "v_head_dim": 8}),
    Family("qwen3_5_moe", "Qwen3_5Moe", {**_DECODER, **_MOE, **_LINEAR, "shared_expert_intermediate_size": 32}, "gated delta rule, experts"),
    Family("afmoe", "Afmoe", {**_DECODER, **_MOE, "num_dense_layers": 1, "sliding_window": 8}, "experts"),
    Family("dbrx", "Dbrx", {"vocab_size": VOCABULARY, "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 128, "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0}, "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2, "hidden_size": 32}}, "experts"),
    Family("granite_swa", "GraniteSWA", {**_DECODER, **_SLIDE}),
    Family("hy_v3", "HYV3", {**_DECODER, **_MOE, "head_dim": 8}, "experts"),
    Family("laguna", "Laguna", {**_DECODER, **_MOE, "head_dim": 8}, "experts"),
    Family("zaya", "Zaya", {**_DECODER, "head_dim": 8}, "experts"),
    Family("rwkv", "Rwkv", {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "context_length": 64}, "state"),
)  # fmt: skip


def tokenizer() -> dict[str, Any]:
    """Return a tokenizer.json whose tokens are the printable characters."""
    words = {word: number for number, word in enumerate([*_SPECIAL, *_CHARACTERS])}
    split = {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": split,
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "<unk>"},
    }


def try_family(family: Family, folder: Path, new_tokens: int = 16) -> dict[str, Any]:
    """Export one family, and compare the tokens that it generates with PyTorch's."""
    import torch

    model = family.model()
    prompt = torch.randint(3, VOCABULARY, (1, 11), generator=torch.Generator().manual_seed(1))
    source = Source(
        name=family.name,
        shape=Sizes(family.name, 2, VOCABULARY, CONTEXT),
        weights={},
        tokenizer=tokenizer(),
        tokenizer_config={},
        bos=1,
        eos=(),
        model=copy.deepcopy(model),
    )
    report = export_source(
        source,
        folder / f"{family.name}.pte",
        quantize=None,
        context=CONTEXT,
        chunk=16,
        half=False,
        clock=Clock(),
    )
    expected = list(_greedy(model, prompt, new_tokens))
    found = asyncio.run(_generate(report.program, prompt[0].tolist(), new_tokens))
    result = report.json()
    result |= {"note": family.note, "tokens": expected, "same": found["tokens"] == expected}
    result |= {"per_token": found["submissions"], "chunk": found["chunk"]}
    result["passed"] = result["passed"] and result["same"]
    return result


def _greedy(model: Any, prompt: Any, count: int) -> Iterator[int]:
    """Yield the likeliest tokens, each computed from the whole text, without any cache."""
    import torch

    text = prompt
    with torch.no_grad():
        for _ in range(count):
            logits = model(input_ids=text, use_cache=False).logits[0, -1]
            token = logits.argmax().reshape(1, 1)
            text = torch.cat([text, token], 1)
            yield int(token)


async def _generate(path: Path, prompt: list[int], count: int) -> dict[str, Any]:
    """Return the program's own likeliest tokens, and how it is called for them."""
    async with await webpte.load(path, device="numpy") as program:
        generator = Generator(program)
        tokens = [t async for t in generator.generate(prompt, max_new_tokens=count, temperature=0)]
    async with await webpte.load(path, device=SimulatedDevice()) as program:
        for position in range(2):  # the first call also uploads constants
            await program.forward(np.array([[5]]), np.array([position]))
        submissions = program.stats.submissions
    return {"tokens": tokens, "submissions": submissions, "chunk": generator.max_chunk}
