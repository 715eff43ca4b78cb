"""Writes flatbuffers from a tree of nodes, for `pte_writer`.

A test that needs a broken table changes the tree: `node.slots[3] = Scalar("i32", 99)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import flatbuffers
import numpy as np
from flatbuffers import number_types

Bytes: TypeAlias = "bytes | np.ndarray[Any, Any]"

# The alignment of byte vectors, inline constants and headers, as in real files.
BYTES_ALIGNMENT = 16


@dataclass
class Scalar:
    """A scalar field, left out if it equals its default."""

    kind: str
    value: float
    default: float = 0


@dataclass
class Vector:
    """A vector of scalars."""

    kind: str
    items: Sequence[float]


@dataclass
class Node:
    """A table: slot -> field. A field of None is absent; a str, bytes or list is a vector."""

    slots: dict[int, Field]


Field: TypeAlias = "Scalar | Vector | str | bytes | Node | list[Node] | None"

_FLAGS = {
    "u8": number_types.Uint8Flags,
    "u32": number_types.Uint32Flags,
    "u64": number_types.Uint64Flags,
    "i8": number_types.Int8Flags,
    "i16": number_types.Int16Flags,
    "i32": number_types.Int32Flags,
    "i64": number_types.Int64Flags,
    "f32": number_types.Float32Flags,
    "f64": number_types.Float64Flags,
}


def write_flatbuffer(root: Node, identifier: bytes) -> bytes:
    """Write the buffer of a tree of nodes."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(_write(builder, root), file_identifier=identifier)
    return bytes(builder.Output())


def _write(builder: Any, item: Vector | str | bytes | Node | list[Node]) -> Any:
    if isinstance(item, str):
        return builder.CreateString(item)
    if isinstance(item, bytes):
        builder.Prep(BYTES_ALIGNMENT, len(item))
        return builder.CreateByteVector(item)
    if isinstance(item, Vector):
        flags = _FLAGS[item.kind]
        builder.StartVector(flags.bytewidth, len(item.items), flags.bytewidth)
        for value in reversed(item.items):
            builder.Prepend(flags, value)
        return builder.EndVector()
    if isinstance(item, list):
        offsets = [_write(builder, node) for node in item]
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return builder.EndVector()
    children = {
        slot: _write(builder, child)
        for slot, child in item.slots.items()
        if child is not None and not isinstance(child, Scalar)
    }
    builder.StartObject(max(item.slots, default=-1) + 1)
    for slot, child in item.slots.items():
        if isinstance(child, Scalar):
            builder.PrependSlot(_FLAGS[child.kind], slot, child.value, child.default)
        elif slot in children:
            builder.PrependUOffsetTRelativeSlot(slot, children[slot], 0)
    return builder.EndObject()


def union(tag: int, node: Node) -> Node:
    return Node({0: Scalar("u8", tag), 1: node})


def i32s(items: Iterable[int]) -> Vector:
    return Vector("i32", list(items))


def padded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def raw_bytes(data: Bytes) -> bytes:
    return data if isinstance(data, bytes) else np.ascontiguousarray(data).tobytes()
