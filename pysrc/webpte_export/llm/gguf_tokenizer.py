"""The tokenizer of a GGUF file, as the tokenizer.json and tokenizer_config.json that others read.

Only byte-level BPE (`tokenizer.ggml.model` is "gpt2"), which Llama 3, Qwen and SmolLM use. A file
names how text is cut before merging (`tokenizer.ggml.pre`); the rules themselves stand in a table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
_NORMALIZED = ("qwen2",)  # texts are composed (NFC) first


def tokenizer_files(
    fields: dict[str, Any], path: Path
) -> tuple[dict[str, Any], dict[str, Any], tuple[int, ...]]:
    """tokenizer.json, tokenizer_config.json and the tokens that end a text."""
    model, pre = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre", "default")
    if model != "gpt2" or pre not in PRE_TOKENIZERS:
        raise ExportError(
            f"{path} has a tokenizer {model!r} ({pre!r}); from GGUF, byte-level BPE is converted "
            f"({', '.join(PRE_TOKENIZERS)}). Export from the safetensors folder instead."
        )
    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    kinds: list[int] = fields.get("tokenizer.ggml.token_type", [1] * len(tokens))
    special = [
        _added_token(number, token, kind)
        for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    config = _config(fields, tokens)
    return _tokenizer(fields, pre, tokens, special), config, _ends(fields, tokens)


def _tokenizer(
    fields: dict[str, Any], pre: str, tokens: list[str], special: list[dict[str, Any]]
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
            "merges": [merge.split(" ") for merge in fields["tokenizer.ggml.merges"]],
        },
    }


def _added_token(number: int, token: str, kind: int) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": token, **flags, "special": kind == _CONTROL}


def _config(fields: dict[str, Any], tokens: list[str]) -> dict[str, Any]:
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    for key, field in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        number = fields.get(f"tokenizer.ggml.{field}_token_id")
        if number is not None and 0 <= number < len(tokens):
            config[f"{key}_token"] = tokens[number]
    if "tokenizer.chat_template" in fields:
        config["chat_template"] = fields["tokenizer.chat_template"]
    config["add_bos_token"] = bool(fields.get("tokenizer.ggml.add_bos_token", False))
    return config


def _ends(fields: dict[str, Any], tokens: list[str]) -> tuple[int, ...]:
    """What the file says, and the tokens that by their names can only end a text."""
    ends = [fields.get("tokenizer.ggml.eos_token_id"), fields.get("tokenizer.ggml.eot_token_id")]
    named = ("<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|end_of_text|>")
    ends += [tokens.index(name) for name in named if name in tokens]
    return tuple(dict.fromkeys(int(end) for end in ends if end is not None))
