"""Decoders of transformers' models compute what the models do, piece by piece and with a cache."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")

from webpte_export.errors import ExportError  # noqa: E402
from webpte_export.exporter_patches import patch_exporter  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    patch_exporter()  # before transformers, which imports torchvision
    transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.filterwarnings("ignore")

_DECODER = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_DECODER |= {"num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 128}
_DECODER |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_GPT = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
_GPT |= {"bos_token_id": 1, "eos_token_id": 2}
_NO_GROUPS = {key: value for key, value in _DECODER.items() if key != "num_key_value_heads"}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", _GPT),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", _GPT),
    "gpt_neox": ("GPTNeoXForCausalLM", _NO_GROUPS),
    "gemma": ("GemmaForCausalLM", {**_DECODER, "head_dim": 16}),
    "gemma3": ("Gemma3ForCausalLM", {**_DECODER, "head_dim": 16, "sliding_window": 8}),
    "qwen2": ("Qwen2ForCausalLM", _DECODER),
    "gemma2": ("Gemma2ForCausalLM", {**_DECODER, "head_dim": 16, "sliding_window": 8}),
    "mistral": ("MistralForCausalLM", {**_DECODER, "sliding_window": 8}),
    "phi": ("PhiForCausalLM", _DECODER),
    "phi3": ("Phi3ForCausalLM", _DECODER),
    "olmo2": ("Olmo2ForCausalLM", _DECODER),
    "granite": ("GraniteForCausalLM", {**_DECODER, "attention_multiplier": 0.2}),
    "smollm3": ("SmolLM3ForCausalLM", _DECODER),
    "starcoder2": ("Starcoder2ForCausalLM", _DECODER),
    "stablelm": ("StableLmForCausalLM", _DECODER),
    "cohere": ("CohereForCausalLM", _DECODER),
    "nemotron": ("NemotronForCausalLM", _DECODER),
    "glm": ("GlmForCausalLM", {**_DECODER, "head_dim": 8}),
    "qwen3": ("Qwen3ForCausalLM", {**_DECODER, "head_dim": 8}),
}


def model_of(name: str) -> Any:
    stem, options = FAMILIES[name]
    kind = getattr(transformers, stem)
    torch.manual_seed(0)
    model = kind(kind.config_class(**options)).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.15)
    return model


@pytest.mark.parametrize("name", FAMILIES)
def test_a_decoder_computes_what_its_model_does(name: str) -> None:
    from webpte_export.llm.decoder import Decoder

    model = model_of(name)
    tokens = torch.randint(3, 99, (1, 24))
    with torch.no_grad():
        expected = model(input_ids=tokens, use_cache=False).logits[0]
        decoder = Decoder(model, 64).eval()
        for first, last in ((0, 7), (7, 8), (8, 24), (5, 6)):  # the last goes back
            logits = decoder(tokens[:, first:last], torch.tensor([first]))
            assert (logits[0] - expected[last - 1]).abs().max() < 2e-5
        whole = decoder.all_logits(tokens)[0]
    assert (whole - expected).abs().max() < 2e-5
    assert not any(buffer.any() for buffer in decoder.caches.buffers())


def test_a_model_without_such_attention_is_refused() -> None:
    from webpte_export.llm.decoder import Decoder

    config = transformers.MambaConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2)
    with pytest.raises(ExportError, match="MambaForCausalLM does not call its attention"):
        Decoder(transformers.MambaForCausalLM(config).eval(), 64)


def test_missing_weights_are_an_error(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    from webpte_export.llm.other_models import read_other

    model_of("gpt2").save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps({}), encoding="utf-8")
    assert read_other(tmp_path).shape.max_context == 128
    file = tmp_path / "model.safetensors"
    weights = load_file(file)
    del weights["transformer.h.1.mlp.c_fc.weight"]
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ExportError, match=r"lacks 1 of the model's weights, .*c_fc"):
        read_other(tmp_path)
