"""Files of models that hear letters (CTC), such as wav2vec 2.0: a tokenizer.json by vocab.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webpte_export.errors import ExportError

VOCABULARY = "vocab.json"
_ROLES = (("pad_token", "<pad>"), ("unk_token", "<unk>"))
SECONDS = 10  # of a call; a shorter sound is padded with silence


def is_ctc(config: Mapping[str, Any]) -> bool:
    """Return whether a config.json is of a model with letters for each frame of a sound."""
    return any(str(name).endswith("ForCTC") for name in config.get("architectures") or ())


def letters_tokenizer(vocabulary: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tokenizer.json whose tokens are letters; the delimiter of words becomes a space."""
    if not all(type(number) is int for number in vocabulary.values()):
        raise ExportError(
            f"{VOCABULARY} is no table of letters and their numbers: of several languages keep one."
        )
    blank, unknown = (str(config.get(role) or usual) for role, usual in _ROLES)
    if blank not in vocabulary:
        raise ExportError(f"{VOCABULARY} has no {blank}, which stands for no letter.")
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    special = [{"id": vocabulary[blank], "content": blank, "special": True, **flags}]
    space = {"type": "Replace", "pattern": {"String": _delimiter(config)}, "content": " "}
    return {
        "version": "1.0",
        "added_tokens": special,
        "decoder": {"type": "Sequence", "decoders": [space, {"type": "Fuse"}]},
        "model": {"type": "WordLevel", "vocab": dict(vocabulary), "unk_token": unknown},
    }


def _delimiter(config: Mapping[str, Any]) -> str:
    return str(config.get("word_delimiter_token") or "|")
