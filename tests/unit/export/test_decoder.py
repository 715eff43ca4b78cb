"""Decoders have the results of transformers' models, piece by piece and with a cache."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

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

from support.llm.decoder_families import (  # noqa: E402
    FAMILIES,
    VOCABULARY,
    Family,
    try_family,
)
from webpte_export.experts import SmallTopK, has_experts, replace_experts  # noqa: E402
from webpte_export.llm.decoder import Decoder  # noqa: E402

# Those whose state is not in the library's cache.
REFUSED = {
    "recurrent_gemma": "RecurrentGemmaForCausalLM cannot be given a cache of fixed size",
    "rwkv": "RwkvForCausalLM does not keep its state in the library's cache",
}
BY_NAME = {family.name: family for family in FAMILIES}


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.name not in REFUSED], ids=str)
def test_a_decoder_computes_what_its_model_does(family: Family) -> None:
    model = family.model()
    tokens = torch.randint(3, VOCABULARY, (1, 24))
    with torch.no_grad():
        expected = model(input_ids=tokens, use_cache=False).logits[0]
        decoder = Decoder(model, 64).eval()
        pieces = [(0, 7), (7, 8), (8, 24), (5, 6)]  # the last goes back
        if decoder.states:
            pieces = [(n, n + 1) for n in (*range(5), *range(24))]  # starts over once
        for first, last in pieces:
            logits = decoder(tokens[:, first:last], torch.tensor([first]))
            assert (logits[0] - expected[last - 1]).abs().max() < 2e-4
        whole = decoder.all_logits(tokens)[0]
    assert (whole - expected).abs().max() < 2e-4
    assert not any(
        buffer.any() for buffer in (*decoder.caches.buffers(), *decoder.states.buffers())
    )


@pytest.mark.parametrize("name", ["mixtral", "mamba", "gemma2", "gemma3"])
def test_a_program_generates_what_its_model_does(name: str, tmp_path: Path) -> None:
    result = try_family(BY_NAME[name], tmp_path, 6)
    assert result["same"], result
    assert result["per_token"] == 1
    assert result["chunk"] == (1 if name == "mamba" else 16)


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_does_not_work_with_a_cache_is_refused(name: str) -> None:
    with pytest.raises(ExportError, match=REFUSED[name]):
        Decoder(BY_NAME[name].model(), 64)


@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe", "phimoe", "gpt_oss"])
def test_wide_experts_compute_what_the_librarys_do(name: str) -> None:
    model = BY_NAME[name].model()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)  # biases, too
    tokens = torch.randint(3, VOCABULARY, (1, 13))
    with torch.no_grad():
        expected = model(input_ids=tokens, use_cache=False).logits
        assert replace_experts(model) == 2
        assert not has_experts(model)
        found = model(input_ids=tokens, use_cache=False).logits
    assert (found - expected).abs().max() < 1e-4


@pytest.mark.parametrize("shape", [(5,), (1, 1), (3, 7), (2, 3, 64)])
def test_small_topk_is_topk(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    x[..., 0] = -torch.inf
    for k in {1, 2, shape[-1]} & set(range(1, shape[-1] + 1)):
        for largest in (True, False):
            expected = x.topk(k, -1, largest)
            with SmallTopK():
                values, indices = torch.topk(x, k, largest=largest)
                again = x.topk(k, -1, largest)
            assert torch.equal(values, expected.values)
            assert torch.equal(indices, expected.indices)
            assert torch.equal(again.indices, expected.indices)


def test_topk_leaves_what_is_not_small() -> None:
    numbers = torch.arange(10)
    many = torch.randn(2, 1000)
    with SmallTopK():
        assert numbers.topk(2).values.tolist() == [9, 8]
        assert torch.equal(many.topk(3).values, many.sort(descending=True).values[:, :3])
        assert torch.topk(many, 1, dim=0).values.shape == (1, 1000)
    ties = torch.zeros(2, 4)
    with SmallTopK():
        assert ties.topk(3).indices.tolist() == [[0, 1, 2]] * 2


def test_missing_weights_are_an_error(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    from webpte_export.llm.other_models import read_other

    BY_NAME["gpt2"].model().save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps({}), encoding="utf-8")
    assert read_other(tmp_path).shape.max_context == 128
    file = tmp_path / "model.safetensors"
    weights = load_file(file)
    del weights["transformer.h.1.mlp.c_fc.weight"]
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ExportError, match=r"lacks 1 of the model's weights, .*c_fc"):
        read_other(tmp_path)
