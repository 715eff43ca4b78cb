"""Converts the tokenizer of a GGUF file to tokenizer.json and tokenizer_config.json.

Byte-level BPE (`tokenizer.ggml.model` is "gpt2"), which Llama 3, Qwen and SmolLM use: a file names
its pre-tokenizer (`tokenizer.ggml.pre`), and the rules of each are in a table here. SentencePiece
("llama"), which Gemma, Llama 2 and Phi 3 use: pieces with scores; the pair with the best result is
joined first.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from webpte.engine.files.json_reader import Table
from webpte_export.errors import ExportError

_CONTROL, _USER_DEFINED = 3, 4  # token types that are matched as a whole
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def _byte_level(use_regex: bool) -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


def _split(pattern: str) -> dict[str, Any]:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
    return _sequence({**split, "invert": False}, _byte_level(False))


def _sequence(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(parts)}


_GPT2 = _byte_level(True)
_SMOLLM = _sequence({"type": "Digits", "individual_digits": True}, _GPT2)
_QWEN2 = _split(rf"{_WORDS}|\p{{N}}|{_REST}")
_LLAMA3 = _split(rf"{_WORDS}|\p{{N}}{{1,3}}|{_REST}")
PRE_TOKENIZERS = {
    "default": _GPT2,
    "gpt-2": _GPT2,
    "gpt2": _GPT2,
    "phi-2": _GPT2,
    "olmo": _GPT2,
    "smollm": _SMOLLM,
    "starcoder": _SMOLLM,
    "refact": _SMOLLM,  # Granite
    "stablelm2": _QWEN2,
    "qwen2": _QWEN2,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "dbrx": _LLAMA3,
    "smaug-bpe": _LLAMA3,
}
_JOINED = (1, 4)  # token types in texts: normal and user-defined
_HEAD = {"version": "1.0", "truncation": None, "padding": None, "post_processor": None}
_BPE: dict[str, Any] = {
    "type": "BPE",
    "dropout": None,
    "unk_token": None,
    "continuing_subword_prefix": None,
    "end_of_word_suffix": None,
    "fuse_unk": False,
    "byte_fallback": False,
    "ignore_merges": False,
}
_END_NAMES = ("<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<end_of_turn>")
_NORMALIZED = ("qwen2",)  # texts are normalized (NFC) first


def tokenizer_files(
    fields: Mapping[str, Any], path: Path
) -> tuple[dict[str, Any], dict[str, Any], tuple[int, ...]]:
    """Return tokenizer.json, tokenizer_config.json and the tokens that end a text."""
    table = Table(fields, str(path), ExportError)
    model = table.text("tokenizer.ggml.model", None)
    pre = table.text("tokenizer.ggml.pre", "default")
    if model != "llama" and (model != "gpt2" or pre not in PRE_TOKENIZERS):
        raise ExportError(
            f"{path} has a tokenizer {model!r} ({pre!r}); from GGUF, byte-level BPE is converted "
            f"({', '.join(PRE_TOKENIZERS)}), and SentencePiece ('llama'). Export from the "
            "safetensors folder instead."
        )
    tokens = _texts(table, "tokenizer.ggml.tokens")
    if len(set(tokens)) < len(tokens):
        raise ExportError(f"{path}: tokenizer.ggml.tokens has a token twice.")
    kinds = table.listed("tokenizer.ggml.token_type", [1] * len(tokens))
    if len(kinds) != len(tokens):
        raise ExportError(
            f"{path}: tokenizer.ggml.token_type has {len(kinds)} items for {len(tokens)} tokens."
        )
    special = [
        _added_token(number, token, kind)
        for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    config = _config(table, tokens)
    if model == "llama":
        return _sentencepiece(table, tokens, kinds, special), config, _ends(table, tokens)
    merges = [merge.split(" ") for merge in _texts(table, "tokenizer.ggml.merges")]
    if bad := next((merge for merge in merges if len(merge) != 2), None):
        raise ExportError(f"{path}: tokenizer.ggml.merges has {bad!r}, not a pair of tokens.")
    return _tokenizer(pre, tokens, merges, special), config, _ends(table, tokens)


def _texts(table: Table, key: str) -> list[str]:
    found = table.listed(key)
    if not all(isinstance(one, str) for one in found):
        raise ExportError(f"{table.name}: {key} has an item that is not a text.")
    return found


def _sentencepiece(
    table: Table, tokens: list[str], kinds: list[Any], special: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return tokenizer.json for pieces with scores."""
    scores = table.listed("tokenizer.ggml.scores")
    if len(scores) != len(tokens) or not all(isinstance(one, int | float) for one in scores):
        raise ExportError(
            f"{table.name}: tokenizer.ggml.scores has {len(scores)} items for {len(tokens)} tokens."
        )
    prefixed = table.flag("tokenizer.ggml.add_space_prefix", True)
    unknown = next((token for token, kind in zip(tokens, kinds, strict=True) if kind == 2), None)
    to_marks = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    to_spaces = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    first = [{"type": "Prepend", "prepend": "\u2581"}] if prefixed else []
    last = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefixed else []
    decoders = [to_spaces, {"type": "ByteFallback"}, {"type": "Fuse"}, *last]
    return {
        **_HEAD,
        "added_tokens": special,
        "normalizer": {"type": "Sequence", "normalizers": [*first, to_marks]},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            **_BPE,
            "unk_token": unknown,
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": _merges(tokens, kinds, scores),
        },
    }


def _merges(tokens: list[str], kinds: list[Any], scores: list[float]) -> list[list[str]]:
    """Return the pairs of pieces that form a piece; pairs of the best piece come first."""
    known = {token: number for number, token in enumerate(tokens) if kinds[number] in _JOINED}
    order = sorted(known, key=lambda token: (-scores[known[token]], known[token]))
    return [
        [token[:at], token[at:]]
        for token in order
        for at in range(1, len(token))
        if token[:at] in known and token[at:] in known
    ]


def _tokenizer(
    pre: str, tokens: list[str], merges: list[list[str]], special: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        **_HEAD,
        "added_tokens": special,
        "normalizer": {"type": "NFC"} if pre in _NORMALIZED else None,
        "pre_tokenizer": PRE_TOKENIZERS[pre],
        "decoder": {**_byte_level(True), "add_prefix_space": True},
        "model": {
            **_BPE,
            "ignore_merges": PRE_TOKENIZERS[pre] is _LLAMA3,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": merges,
        },
    }


def _added_token(number: int, token: str, kind: int) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": token, **flags, "special": kind == _CONTROL}


def _config(table: Table, tokens: list[str]) -> dict[str, Any]:
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    for key, field in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        number = table.integer(f"tokenizer.ggml.{field}_token_id", None)
        if number is not None and 0 <= number < len(tokens):
            config[f"{key}_token"] = tokens[number]
    if "tokenizer.chat_template" in table:
        config["chat_template"] = table.text("tokenizer.chat_template")
    config["add_bos_token"] = table.flag("tokenizer.ggml.add_bos_token", False)
    return config


def _ends(table: Table, tokens: list[str]) -> tuple[int, ...]:
    """Return the file's end tokens, and tokens that by their names can only end a text."""
    ends = [table.integer(f"tokenizer.ggml.{name}_token_id", None) for name in ("eos", "eot")]
    named = (
        "<|endoftext|>",
        "<|im_end|>",
        "<|eot_id|>",
        "<|end_of_text|>",
        "<|end|>",
        "<end_of_turn>",
    )
    ends += [tokens.index(name) for name in named if name in tokens]
    return tuple(dict.fromkeys(end for end in ends if end is not None and 0 <= end < len(tokens)))
