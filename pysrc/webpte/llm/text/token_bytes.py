"""Tokens of a vocabulary as bytes, as far as a tokenizer.json defines them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from webpte.errors import TextError

Pieces = list[bytes | None]

_SPACE = "\u2581"  # sentencepiece's mark of a space
_BYTE = re.compile(r"^<0x([0-9A-Fa-f]{2})>$")


def _byte_characters() -> dict[str, int]:
    """Return the characters that byte-level tokenizers (since GPT-2) write bytes with.

    Bytes that are printable in Latin-1 stand for themselves; the others follow after it, in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    found = {chr(byte): byte for byte in printable}
    return {**found, **{chr(256 + place): byte for place, byte in enumerate(others)}}


_WRITTEN = {byte: character for character, byte in _byte_characters().items()}


def byte_characters(data: bytes) -> str:
    """Write bytes as byte-level tokenizers do."""
    return "".join(_WRITTEN[byte] for byte in data)


def _kinds(decoder: Mapping[str, Any] | None) -> Iterator[str]:
    for part in (decoder or {}).get("decoders") or [decoder or {}]:
        yield str(part.get("type"))


def json_pieces(
    content: Mapping[str, Any], tokens: Mapping[str, int], special: Collection[int]
) -> Pieces:
    """Return the bytes of each token of a tokenizer.json; None for special tokens and gaps."""
    kinds = set(_kinds(content.get("decoder")))
    added = {token["id"] for token in content.get("added_tokens") or ()}
    pieces: Pieces = [None] * (max(tokens.values(), default=-1) + 1)
    by_character = _byte_characters()
    if not kinds & {"ByteLevel", "Metaspace", "ByteFallback"}:
        raise TextError(
            f"a tokenizer with the decoder {', '.join(sorted(kinds))} does not define its "
            "tokens as bytes: answers cannot be constrained to a pattern with it"
        )
    for text, number in tokens.items():
        if number in special:
            continue
        if number in added:
            pieces[number] = text.encode()
        elif "ByteLevel" in kinds:
            pieces[number] = bytes(by_character[c] for c in text if c in by_character)
        elif byte := _BYTE.match(text):
            pieces[number] = bytes.fromhex(byte[1])
        else:
            pieces[number] = text.replace(_SPACE, " ").encode()
    return pieces
