"""Converts the tokenizer of a GGUF file to tokenizer.json and tokenizer_config.json.

Only byte-level BPE (`tokenizer.ggml.model` is "gpt2"), which Llama 3, Qwen and SmolLM use. A file
names its pre-tokenizer (`tokenizer.ggml.pre`); the rules of each are in a table here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from webpte.json_reader import Table
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
    "smollm": _SMOLLM,
    "qwen2": _QWEN2,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
}
_NORMALIZED = ("qwen2",)  # texts are normalized (NFC) first


def tokenizer_files(
    fields: Mapping[str, Any], path: Path
) -> tuple[dict[str, Any], dict[str, Any], tuple[int, ...]]:
    """Return tokenizer.json, tokenizer_config.json and the tokens that end a text."""
    table = Table(fields, str(path), ExportError)
    model = table.text("tokenizer.ggml.model", None)
    pre = table.text("tokenizer.ggml.pre", "default")
    if model != "gpt2" or pre not in PRE_TOKENIZERS:
        raise ExportError(
            f"{path} has a tokenizer {model!r} ({pre!r}); from GGUF, byte-level BPE is converted "
            f"({', '.join(PRE_TOKENIZERS)}). Export from the safetensors folder instead."
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
    merges = [merge.split(" ") for merge in _texts(table, "tokenizer.ggml.merges")]
    if bad := next((merge for merge in merges if len(merge) != 2), None):
        raise ExportError(f"{path}: tokenizer.ggml.merges has {bad!r}, not a pair of tokens.")
    config = _config(table, tokens)
    return _tokenizer(pre, tokens, merges, special), config, _ends(table, tokens)


def _texts(table: Table, key: str) -> list[str]:
    found = table.listed(key)
    if not all(isinstance(one, str) for one in found):
        raise ExportError(f"{table.name}: {key} has an item that is not a text.")
    return found


def _tokenizer(
    pre: str, tokens: list[str], merges: list[list[str]], special: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": {"type": "NFC"} if pre in _NORMALIZED else None,
        "pre_tokenizer": PRE_TOKENIZERS[pre],
        "post_processor": None,
        "decoder": {**_byte_level(True), "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": pre in ("llama-bpe", "llama3"),
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
    named = ("<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|end_of_text|>")
    ends += [tokens.index(name) for name in named if name in tokens]
    return tuple(dict.fromkeys(end for end in ends if end is not None and 0 <= end < len(tokens)))
