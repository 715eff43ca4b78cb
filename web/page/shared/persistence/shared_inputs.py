"""Inputs in the fragment of a link, "#inputs=…": compressed JSON, as the store keeps them."""

from __future__ import annotations

import binascii
import json
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

from webpte.engine.files.json_reader import parse_json

MOST_CHARACTERS = 16_000  # of a fragment: longer links are cut by some programs
_LARGEST = 1 << 20  # bytes after unpacking
_PREFIX = "#inputs="


def to_fragment(key: str, inputs: Mapping[str, Any]) -> str:
    """Return the fragment for the inputs of a program; "" if they are too large for a link."""
    packed = zlib.compress(json.dumps({"key": key, "inputs": inputs}).encode(), 9)
    text = _PREFIX + urlsafe_b64encode(packed).decode().rstrip("=")
    return text if len(text) <= MOST_CHARACTERS else ""


def from_fragment(fragment: str) -> tuple[str, dict[str, Any]] | None:
    """Return the program's key and its inputs; None if inputs are absent or damaged."""
    if not fragment.startswith(_PREFIX) or len(fragment) > MOST_CHARACTERS:
        return None
    text = fragment.removeprefix(_PREFIX)
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(urlsafe_b64decode(text + "=" * (-len(text) % 4)), _LARGEST)
        found = parse_json(data.decode(), "the link", ValueError, not_finite=True)
        key, inputs = found["key"], found["inputs"]
    except (binascii.Error, zlib.error, ValueError, TypeError, KeyError):
        return None
    return (key, inputs) if isinstance(key, str) and isinstance(inputs, dict) else None
