"""Exports the sample `words`, with a tokenizer of bytes.

    python -m webpte_export.samples.words.export_words OUT_DIR

OUT_DIR gets words.pte, words.tokenizer.json, and words.suite, PyTorch's results for the tests.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim

from webpte_export import Report, export
from webpte_export.samples.words.network import LETTERS, MOST_LETTERS, MOST_TEXTS, Words

# Words in most texts say little about them.
COMMON = (
    *("a", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "did", "do", "does"),
    *("for", "from", "had", "has", "have", "he", "her", "his", "how", "i", "if", "in", "into"),
    *("is", "it", "its", "me", "my", "no", "not", "of", "on", "or", "our", "she", "so", "that"),
    *("the", "their", "them", "then", "there", "they", "this", "to", "was", "we", "were", "what"),
    *("when", "where", "which", "who", "why", "will", "with", "you", "your"),
)


def byte_letters() -> list[str]:
    """Return the letter that byte-level tokenizers write for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def tokenizer() -> dict[str, Any]:
    """Return a tokenizer.json: a token for each byte of the text, without common words."""
    common = "|".join(COMMON)
    steps: list[dict[str, Any]] = [
        {"type": "NFD"},
        {"type": "StripAccents"},
        {"type": "Lowercase"},
        {"type": "Replace", "pattern": {"Regex": r"[^\p{L}\p{N}]+"}, "content": "  "},
        {"type": "Replace", "pattern": {"Regex": rf"(^| )({common})(?= |$)"}, "content": " "},
        {"type": "Replace", "pattern": {"Regex": " +"}, "content": " "},
        {"type": "Replace", "pattern": {"Regex": "^ | $"}, "content": ""},
    ]
    pad = {"id": 0, "content": "<pad>", "special": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    vocabulary = {"<pad>": 0} | {letter: n + 1 for n, letter in enumerate(byte_letters())}
    assert len(vocabulary) == LETTERS
    whole = {
        "type": "ByteLevel",
        "add_prefix_space": True,
        "trim_offsets": True,
        "use_regex": False,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{**pad, **flags}],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": whole,
        "post_processor": None,
        "decoder": whole,
        "model": {
            **dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix")),
            **dict.fromkeys(("fuse_unk", "byte_fallback", "ignore_merges"), False),
            "type": "BPE",
            "end_of_word_suffix": None,
            "vocab": vocabulary,
            "merges": [],
        },
    }


def export_words(out: Path) -> Report:
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(tokenizer(), ensure_ascii=False, separators=(",", ":"))
    (out / "words.tokenizer.json").write_text(text + "\n", encoding="utf-8")
    random = torch.Generator().manual_seed(3)
    first, *others = (
        torch.randint(0, LETTERS, (texts, letters), generator=random)
        for texts, letters in ((3, 37), (1, 1), (MOST_TEXTS, 67))
    )
    texts, letters = (
        Dim(name, min=low, max=most)
        for name, low, most in (("texts", 1, MOST_TEXTS), ("letters", 1, MOST_LETTERS))
    )
    return export(
        Words().eval(),
        (first,),
        out / "words",
        dynamic_shapes=({0: texts, 1: letters},),
        more_inputs=[(call,) for call in others],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    print(export_words(parser.parse_args().out).text())


if __name__ == "__main__":
    main()
