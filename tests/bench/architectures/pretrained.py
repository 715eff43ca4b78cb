"""Hugging Face's architectures, from their own configurations made tiny, without any weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from bench.architectures.rows import Architecture, image, tokens, values

_TEXT = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_TEXT |= {"intermediate_size": 48, "max_position_embeddings": 64, "pad_token_id": 0}
_DECODER = {**_TEXT, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2}
_DECODER |= {"num_hidden_layers": 1}  # their exports take the longest
_VISION = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_VISION |= {"intermediate_size": 48, "image_size": 32, "patch_size": 8, "num_channels": 3}
_GPT = {"vocab_size": 99, "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 64}
_SEQ2SEQ = {"vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2}
_SEQ2SEQ |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48}
_SEQ2SEQ |= {"decoder_ffn_dim": 48, "max_position_embeddings": 64, "pad_token_id": 0}
_SPEECH = {**_TEXT, "conv_dim": (16, 16), "conv_stride": (4, 2), "conv_kernel": (8, 3)}
_SPEECH |= {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4}
_T5 = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}


class FirstOutput(nn.Module):
    """A model of the library as a function of tensors: its main result, without caches."""

    def __init__(self, model: Any, part: str | None, argument: str) -> None:
        super().__init__()
        self.model = getattr(model, part) if part else model
        self.argument = argument
        self.options: dict[str, Any] = {}
        if getattr(model.config, "use_cache", None) is not None and part is None:
            self.options["use_cache"] = False

    def forward(self, x: Tensor) -> Tensor:
        given = {self.argument: x}
        return self.model(**given, **self.options, return_dict=False)[0]


def model_of(
    name: str, options: dict[str, Any], part: str | None, argument: str
) -> Callable[[], nn.Module]:
    """Build a row; `name` is the stem of the classes, such as "Bert" of BertConfig and BertModel."""

    def make() -> nn.Module:
        import transformers

        config = getattr(transformers, f"{name}Config")(**options)
        config._attn_implementation = "eager"
        model = getattr(transformers, f"{name}Model")(config)
        return FirstOutput(model, part, argument)

    return make


def text(name: str, stem: str, options: dict[str, Any], part: str | None = None) -> Architecture:
    return Architecture(name, model_of(stem, options, part, "input_ids"), tokens())


def vision(
    name: str, stem: str, options: dict[str, Any], part: str | None = None, size: int = 32
) -> Architecture:
    return Architecture(name, model_of(stem, options, part, "pixel_values"), image(size))


def sound(name: str, stem: str, options: dict[str, Any]) -> Architecture:
    return Architecture(name, model_of(stem, options, None, "input_values"), values(1, 400))


def whisper() -> nn.Module:
    import transformers

    options = {**_SEQ2SEQ, "num_mel_bins": 16, "max_source_positions": 20}
    config = transformers.WhisperConfig(**options, bos_token_id=1, eos_token_id=2)
    config._attn_implementation = "eager"
    return FirstOutput(transformers.WhisperModel(config), "encoder", "input_features")


def rwkv() -> nn.Module:
    """Build an RWKV that has rescaled its weights, as it does in its first call."""
    options = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "context_length": 64}
    model = model_of("Rwkv", options, None, "input_ids")().eval()
    with torch.no_grad():
        model(torch.zeros(1, 2, dtype=torch.long))
    return model


def any_length() -> tuple[dict[int, Any]]:
    from torch.export import Dim

    return ({1: Dim("length", min=2, max=32)},)


ROWS = (
    text("bert", "Bert", _TEXT),
    Architecture("bert_any_length", model_of("Bert", _TEXT, None, "input_ids"), tokens(), any_length, lambda: [(torch.randint(3, 90, (1, 29)),)]),
    text("roberta", "Roberta", {**_TEXT, "pad_token_id": 1}),
    text("xlm_roberta", "XLMRoberta", {**_TEXT, "pad_token_id": 1}),
    text("distilbert", "DistilBert", {"vocab_size": 99, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}),
    text("albert", "Albert", {**_TEXT, "embedding_size": 16}),
    text("electra", "Electra", {**_TEXT, "embedding_size": 16}),
    text("mpnet", "MPNet", {**_TEXT, "pad_token_id": 1}),
    text("mobilebert", "MobileBert", {**_TEXT, "embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16}),
    text("deberta_v2", "DebertaV2", {**_TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8}),
    text("squeezebert", "SqueezeBert", {**_TEXT, "embedding_size": 32}),
    text("convbert", "ConvBert", {**_TEXT, "embedding_size": 16}),
    text("roformer", "RoFormer", _TEXT),
    text("modernbert", "ModernBert", {**_TEXT, "global_attn_every_n_layers": 2, "local_attention": 8}),
    text("ernie", "Ernie", _TEXT),
    text("esm", "Esm", {**_TEXT, "mask_token_id": 4, "position_embedding_type": "rotary"}),
    text("fnet", "FNet", _TEXT),
    text("xlnet", "XLNet", {"vocab_size": 99, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}),
    text("gpt2", "GPT2", _GPT),
    text("gpt_bigcode", "GPTBigCode", _GPT),
    text("gpt_neo", "GPTNeo", {"vocab_size": 99, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64}),
    text("gpt_neox", "GPTNeoX", _TEXT),
    text("gptj", "GPTJ", {**_GPT, "rotary_dim": 4}),
    text("codegen", "CodeGen", {**_GPT, "rotary_dim": 4}),
    text("opt", "OPT", {**_TEXT, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    text("bloom", "Bloom", {"vocab_size": 99, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    text("mpt", "Mpt", {"vocab_size": 99, "d_model": 32, "n_layers": 2, "n_heads": 4}),
    text("falcon", "Falcon", {**_TEXT, "new_decoder_architecture": False}),
    text("llama", "Llama", _DECODER),
    text("mistral", "Mistral", _DECODER),
    text("mixtral", "Mixtral", {**_DECODER, "num_local_experts": 4}),
    text("qwen2", "Qwen2", _DECODER),
    text("qwen3", "Qwen3", {**_DECODER, "head_dim": 8}),
    text("gemma", "Gemma", {**_DECODER, "head_dim": 8}),
    text("gemma2", "Gemma2", {**_DECODER, "head_dim": 8, "sliding_window": 8}),
    text("phi", "Phi", _DECODER),
    text("phi3", "Phi3", _DECODER),
    text("stablelm", "StableLm", _DECODER),
    text("starcoder2", "Starcoder2", _DECODER),
    text("olmo2", "Olmo2", _DECODER),
    text("granite", "Granite", _DECODER),
    text("cohere", "Cohere", _DECODER),
    text("smollm3", "SmolLM3", _DECODER),
    text("nemotron", "Nemotron", {**_DECODER, "head_dim": 8}),
    text("mamba", "Mamba", {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}),
    Architecture("rwkv", rwkv, tokens()),
    text("t5_encoder", "T5", _T5, "encoder"),
    text("bart_encoder", "Bart", _SEQ2SEQ, "encoder"),
    text("marian_encoder", "Marian", {**_SEQ2SEQ, "decoder_start_token_id": 0}, "encoder"),
    text("pegasus_encoder", "Pegasus", _SEQ2SEQ, "encoder"),
    text("m2m_100_encoder", "M2M100", _SEQ2SEQ, "encoder"),
    text("clip_text", "CLIPText", {**_TEXT, "eos_token_id": 98, "bos_token_id": 1}),
    text("siglip_text", "SiglipText", _TEXT),
    vision("clip_vision", "CLIPVision", _VISION),
    vision("siglip_vision", "SiglipVision", _VISION),
    vision("vit", "ViT", _VISION),
    vision("deit", "DeiT", _VISION),
    vision("beit", "Beit", {**_VISION, "use_relative_position_bias": True}),
    vision("dinov2", "Dinov2", _VISION),
    vision("yolos", "Yolos", {**_VISION, "image_size": [32, 32], "num_detection_tokens": 5}),
    vision("swin", "Swin", {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}),
    vision("swinv2", "Swinv2", {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}),
    vision("convnext", "ConvNext", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}, size=64),
    vision("convnextv2", "ConvNextV2", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}, size=64),
    vision("resnet", "ResNet", {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}),
    vision("regnet", "RegNet", {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "groups_width": 8}, size=64),
    vision("mobilenet_v1_hf", "MobileNetV1", {"depth_multiplier": 0.25, "min_depth": 4}, size=64),
    vision("mobilenet_v2_hf", "MobileNetV2", {"depth_multiplier": 0.25, "depth_divisible_by": 4, "min_depth": 4}, size=64),
    vision("mobilevit", "MobileViT", {"image_size": 64, "hidden_sizes": [12, 16, 20], "neck_hidden_sizes": [8, 8, 12, 12, 16, 20, 24], "num_attention_heads": 4}, size=64),
    vision("segformer", "Segformer", {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 1, 2, 2], "sr_ratios": [4, 2, 1, 1]}),
    vision("poolformer", "PoolFormer", {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}, size=64),
    vision("pvt", "Pvt", {"image_size": 64, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 1, 2, 2]}, size=64),
    vision("cvt", "Cvt", {"embed_dim": [8, 16, 32], "num_heads": [1, 2, 4], "depth": [1, 1, 1]}),
    vision("levit", "Levit", {"image_size": 64, "hidden_sizes": [16, 24, 32], "num_attention_heads": [2, 3, 4], "depths": [1, 1, 1], "key_dim": [8, 8, 8]}, size=64),
    vision("efficientnet_hf", "EfficientNet", {"width_coefficient": 0.25, "depth_coefficient": 0.2, "hidden_dim": 320}, size=64),
    sound("wav2vec2", "Wav2Vec2", _SPEECH),
    sound("hubert", "Hubert", _SPEECH),
    sound("wavlm", "WavLM", _SPEECH),
    Architecture("whisper_encoder", whisper, values(1, 16, 40)),
)  # fmt: skip
