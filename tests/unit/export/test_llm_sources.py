"""The reading of language models without PyTorch: sizes, names, the tokenizer."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from webpte_export import ExportError
from webpte_export.llm import from_gguf, huggingface
from webpte_export.llm.export import export_llm, metadata, write_tokenizer
from webpte_export.llm.gguf_tokenizer import tokenizer_files
from webpte_export.llm.read_source import read_source
from webpte_export.llm.source import Source, context_note

HERE = Path("model")
CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 320,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e5,
    "max_position_embeddings": 256,
}
TEXTS = ["The keeper's 92 steps, climbed twice.", "  Spaces\n\nand lines 12345", "Ü, 雨 and 🙂!"]


def gguf_fields(pre: str = "smollm") -> tuple[dict[str, Any], Tokenizer]:
    """Return GGUF metadata of a tokenizer that is trained here, and that tokenizer."""
    original = Tokenizer(models.BPE())
    digits, cut = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel
    original.pre_tokenizer = pre_tokenizers.Sequence([digits, cut(add_prefix_space=False)])
    original.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=cut.alphabet(),
        special_tokens=special,
        show_progress=False,
    )
    original.train_from_iterator(["the keeper climbed the steps and the spaces"] * 3, trainer)
    model = json.loads(original.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    fields = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * 3 + [1] * (len(tokens) - 3),
        "tokenizer.ggml.merges": [" ".join(merge) for merge in model["merges"]],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.chat_template": "{{ messages }}",
    }
    return fields, original


def test_a_tokenizer_from_gguf_is_the_one_it_was_made_of() -> None:
    fields, original = gguf_fields()
    content, config, ends = tokenizer_files(fields, HERE)
    made = Tokenizer.from_str(json.dumps(content))
    for text in TEXTS:
        expected = original.encode(text).ids
        assert made.encode(text).ids == expected
        assert made.decode(expected) == text
    marked = made.encode("<|im_start|>user\nHi<|im_end|>").ids
    assert (marked[0], marked[-1]) == (1, 2)
    assert config["eos_token"] == "<|im_end|>"
    assert config["chat_template"] == "{{ messages }}"
    assert ends == (2, 0)


def test_digits_are_cut_as_the_file_says() -> None:
    """The test above can fail: this pre-tokenizer splits text in another way."""
    fields, original = gguf_fields()
    fields["tokenizer.ggml.tokens"] = [*fields["tokenizer.ggml.tokens"], "12"]
    fields["tokenizer.ggml.token_type"] = [*fields["tokenizer.ggml.token_type"], 1]
    fields["tokenizer.ggml.merges"] = [*fields["tokenizer.ggml.merges"], "1 2"]
    for pre, joined in (("smollm", False), ("gpt-2", True), ("qwen2", False), ("llama-bpe", True)):
        content, _, _ = tokenizer_files({**fields, "tokenizer.ggml.pre": pre}, HERE)
        tokens = Tokenizer.from_str(json.dumps(content)).encode("12").tokens
        assert (tokens == ["12"]) is joined, pre
    assert original.encode("12").tokens == ["1", "2"]


@pytest.mark.parametrize(("key", "value"), [("model", "bert"), ("pre", "tekken")])
def test_other_tokenizers_are_refused(key: str, value: str) -> None:
    fields, _ = gguf_fields()
    with pytest.raises(ExportError, match=rf"{value}.*byte-level BPE"):
        tokenizer_files({**fields, f"tokenizer.ggml.{key}": value}, HERE)


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
PIECES = [
    "\u2581the",
    "\u2581",
    "he",
    "t",
    "h",
    "e",
    "\u2581t",
    "th",
    "ke",
    "k",
    "ep",
    "p",
    "r",
    "er",
]
PIECES += ["\u2581s", "s", "st", "\u2581st", "eps", "ee", "pe", "the"]
SCORES = [-9.0, -40, -2, -41, -42, -43, -3, -5, -6, -44, -4, -45, -46, -1, -7, -47, -8, -3.5, -2.5]
SCORES += [-10, -0.5, -11]


def spm_fields(prefixed: bool) -> dict[str, Any]:
    tokens = ["<unk>", "<s>", "</s>", "<end_of_turn>", *BYTES, *PIECES]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [2, 3, 3, 4, *[6] * 256, *[1] * len(PIECES)],
        "tokenizer.ggml.scores": [0.0] * 260 + SCORES,
        "tokenizer.ggml.add_space_prefix": prefixed,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }


def spm_encode(text: str, prefixed: bool) -> list[int]:
    """Join the pair of neighbours that makes the best piece, until none does, as SentencePiece."""
    pieces = list((" " * prefixed + text).replace(" ", "\u2581"))
    score = dict(zip(PIECES, SCORES, strict=True))
    while True:
        found = [
            (-score[a + b], at) for at, (a, b) in enumerate(pairwise(pieces)) if a + b in score
        ]
        if not found:
            break
        _, at = min(found)
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
    numbers = []
    for piece in pieces:
        if piece in score:
            numbers.append(260 + PIECES.index(piece))
        else:
            numbers += [4 + byte for byte in piece.encode()]
    return numbers


@pytest.mark.parametrize("prefixed", [True, False])
def test_sentencepiece_joins_the_best_pair_first(prefixed: bool) -> None:
    content, config, ends = tokenizer_files(spm_fields(prefixed), HERE)
    made = Tokenizer.from_str(json.dumps(content))
    for text in ("the keeper", "steps of the keeper", "thethe  kepst", "Ü 🙂", "peer the reek"):
        expected = spm_encode(text, prefixed)
        assert made.encode(text).ids == expected, text
        assert made.decode(expected) == text
    assert made.encode("<end_of_turn>").ids[-1] == 3
    assert (config["bos_token"], ends) == ("<s>", (2, 3))


def test_scores_that_do_not_fit_are_reported() -> None:
    fields = {**spm_fields(True), "tokenizer.ggml.scores": [0.0]}
    with pytest.raises(ExportError, match="has 1 items for 282 tokens"):
        tokenizer_files(fields, HERE)


def source(**changes: Any) -> Source:
    fields, _ = gguf_fields()
    tokenizer, config, eos = tokenizer_files(fields, HERE)
    shape = huggingface.shape_of({**CONFIG, **changes}, HERE)
    return Source("m", shape, {}, tokenizer, config, 1, eos)


def test_files_beside_the_program(tmp_path: Path) -> None:
    tokens = write_tokenizer(source(), tmp_path / "out")
    made = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    assert made.decode(tokens).startswith("The lighthouse stood")
    config = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert config["bos_token"] == "<|im_start|>"


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="the model knows 40: this is another model's tokenizer"):
        write_tokenizer(source(vocab_size=40), tmp_path)


def test_what_the_program_says_of_itself() -> None:
    facts = metadata(source(), 128, 64)
    assert facts["get_eos_ids"] == [2, 0]
    assert facts["get_bos_id"] == 1
    assert (facts["get_max_context_len"], facts["get_max_seq_len"]) == (128, 64)
    assert facts["get_vocab_size"] == 320


def test_sizes_of_a_folder() -> None:
    shape = huggingface.shape_of(CONFIG, HERE)
    assert (shape.head_dim, shape.kv_heads, shape.rope_theta) == (16, 2, 1e5)
    assert shape.params["hidden_dim"] == 96
    assert not shape.params["use_scaled_rope"]
    qwen = huggingface.shape_of({**CONFIG, "model_type": "qwen3", "head_dim": 32}, HERE).params
    assert (qwen["head_dim"], qwen["use_qk_norm"], qwen["attention_qkv_bias"]) == (32, True, False)
    newer = {**CONFIG, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}
    assert huggingface.shape_of(newer, HERE).rope_theta == 5e5


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model_type": "mamba"}, "'mamba'; llama, mistral"),
        ({"model_type": "mistral", "sliding_window": 4096}, "sliding window"),
        ({"attention_bias": True}, "biases"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, '"yarn"'),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, '"llama3"'),
    ],
)
def test_what_cannot_be_exported_is_reported(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ExportError, match=says):
        huggingface.shape_of({**CONFIG, **changes}, HERE)


def test_a_key_that_is_missing_is_named() -> None:
    with pytest.raises(ExportError, match=r"lacks 'hidden_size'"):
        huggingface.shape_of({k: v for k, v in CONFIG.items() if k != "hidden_size"}, HERE)


def test_sizes_of_a_gguf_file() -> None:
    sizes = {
        "block_count": 2,
        "context_length": 256,
        "embedding_length": 64,
        "feed_forward_length": 96,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "attention.layer_norm_rms_epsilon": 9.999999747378752e-06,
        "rope.freq_base": 1e5,
        "vocab_size": 320,
    }
    fields = {"general.architecture": "llama", **{f"llama.{k}": v for k, v in sizes.items()}}
    assert from_gguf.shape_of(fields, HERE) == huggingface.shape_of(CONFIG, HERE)
    del fields["llama.block_count"]
    with pytest.raises(ExportError, match=r"lacks 'llama\.block_count'"):
        from_gguf.shape_of(fields, HERE)


@pytest.mark.parametrize(
    ("hugging_face", "gguf", "meta"),
    [
        ("model.layers.3.mlp.up_proj.weight", "blk.3.ffn_up.weight", "3.feed_forward.w3.weight"),
        ("model.layers.0.self_attn.q_proj.bias", "blk.0.attn_q.bias", "0.attention.wq.bias"),
        ("model.embed_tokens.weight", "token_embd.weight", "tok_embeddings.weight"),
        ("lm_head.weight", "output.weight", "output.weight"),
    ],
)
def test_names(hugging_face: str, gguf: str, meta: str) -> None:
    expected = f"layers.{meta}" if meta[0].isdigit() else meta
    assert huggingface.meta_name(hugging_face, HERE) == expected
    assert from_gguf.meta_name(gguf, HERE) == expected
    with pytest.raises(ExportError, match="no Llama-like model has"):
        huggingface.meta_name("model.layers.0.conv.weight", HERE)


def test_sources_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="no such file"):
        read_source(tmp_path / "nothing.gguf")
    (tmp_path / "weights.bin").touch()
    with pytest.raises(ExportError, match=r"neither a \.gguf file nor a folder"):
        read_source(tmp_path / "weights.bin")
    with pytest.raises(ExportError, match=r"config\.json is missing"):
        read_source(tmp_path)
    with pytest.raises(ExportError, match="'2w' is not known"):
        export_llm(tmp_path, tmp_path / "out", quantize="2w")


def test_a_context_that_is_cut_is_told() -> None:
    assert context_note(64, 64) == context_note(None, 16) == context_note(32, 64) == {}
    assert context_note(64, 16)["max_context"].startswith("16 tokens instead of 64: ")
