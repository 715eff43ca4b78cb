"""A lesson as the browser keeps it, so that a reload restores examples and weights."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np

from page.core.store import encode
from page.shared.npy import Array, read_npy, write_npy
from page.views.teach.lesson import FEWEST, MOST, MOST_EXAMPLES, Kind, Lesson

# Of one lesson: browsers keep a few megabytes for a whole site.
MOST_CHARACTERS = 1_000_000
_LARGEST = 64 << 20  # bytes of an array after unpacking


def key_of(file: str) -> str:
    """Return the store's key for the lesson of a program; `file` is its address or name."""
    return f"teach:{file}"


def to_json(lesson: Lesson) -> dict[str, Any]:
    """Return a lesson as the store keeps it; {} if nothing was done, or it is too large.

    If it is too large with its weights, these are left out.
    """
    if not any(kind.examples for kind in lesson.kinds) and lesson.weights is None:
        return {}
    kinds = [
        {
            "name": kind.name,
            "examples": [_packed(np.round(255 * one.drawing).astype(np.uint8))
                         for one in kind.examples],
        }
        for kind in lesson.kinds
    ]  # fmt: skip
    plain = {"kinds": kinds, "steps": lesson.steps}
    if lesson.weights is not None:
        weights = {name: _packed(array) for name, array in lesson.weights.items()}
        whole = {**plain, "weights": weights, "losses": lesson.losses}
        if len(encode(whole)) <= MOST_CHARACTERS:
            return whole
    return plain if len(encode(plain)) <= MOST_CHARACTERS else {}


def from_json(saved: Any) -> Lesson | None:
    """Return a saved lesson; None if there is none, or another hand has written it."""
    try:
        kinds = [_kind(one) for one in saved["kinds"]]
        if not FEWEST <= len(kinds) <= MOST:
            return None
        lesson = Lesson(kinds, steps=max(1, int(saved["steps"])))
        if saved.get("weights"):
            lesson.weights = {str(name): _unpacked(one) for name, one in saved["weights"].items()}
            lesson.losses = [float(loss) for loss in saved["losses"]]
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError, zlib.error):
        return None
    return lesson


def _kind(raw: Mapping[str, Any]) -> Kind:
    drawings = [_unpacked(one).astype(np.float32) / 255 for one in raw["examples"][:MOST_EXAMPLES]]
    if any(one.ndim != 2 for one in drawings):
        raise ValueError("a drawing has two dims")
    return Kind.of(str(raw["name"])[:24], drawings)


def _packed(array: Array) -> str:
    return b64encode(zlib.compress(write_npy(array))).decode()


def _unpacked(text: str) -> Array:
    unpacker = zlib.decompressobj()
    return read_npy(unpacker.decompress(b64decode(text), _LARGEST))
