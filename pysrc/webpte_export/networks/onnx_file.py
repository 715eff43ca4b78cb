"""Reads ONNX files: the few fields of their protobuf that define a network.

A protobuf message is a list of (key, value): the key's low three bits are the wire type (0 varint,
1 eight bytes, 2 length and bytes, 5 four bytes), the rest is the field's number. Numbers come from
onnx.proto, where they never change.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_DTYPES = {1: "<f4", 2: "u1", 3: "i1", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 11: "<f8"}
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5

_MODEL_GRAPH, _MODEL_METADATA = 7, 14
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 5, 11, 12
_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_OP, _NODE_ATTRIBUTE = 1, 2, 3, 4, 5
_TENSOR_DIMS, _TENSOR_DTYPE, _TENSOR_NAME, _TENSOR_RAW = 1, 2, 8, 9
_TENSOR_LISTS = {4: "<f4", 5: "<i4", 7: "<i8"}  # fields of values that are not raw bytes


@dataclass(frozen=True)
class Node:
    """An operator; `name` is its place in the exported network."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    name: str = ""


@dataclass(frozen=True)
class Graph:
    nodes: list[Node]
    constants: dict[str, Array]
    inputs: list[str]
    outputs: list[str]


def read_onnx(path: Path) -> Graph:
    """Read a network; a branch of an `If` is an attribute that is a Graph."""
    model = _message(path.read_bytes())
    return _graph(model[_MODEL_GRAPH][0])


def _graph(data: bytes) -> Graph:
    graph = _message(data)
    tensors = [_tensor(raw) for raw in graph.get(_GRAPH_INITIALIZER, [])]
    constants = dict(tensors)
    inputs = [_text(_message(raw)[1][0]) for raw in graph.get(_GRAPH_INPUT, [])]
    return Graph(
        nodes=[_node(raw) for raw in graph[_GRAPH_NODE]],
        constants=constants,
        inputs=[name for name in inputs if name not in constants],
        outputs=[_text(_message(raw)[1][0]) for raw in graph[_GRAPH_OUTPUT]],
    )


def read_metadata(path: Path) -> dict[str, str]:
    """Return the texts in a file besides its network, by name."""
    entries = [_message(raw) for raw in _message(path.read_bytes()).get(_MODEL_METADATA, [])]
    return {_text(entry[1][0]): _text(entry.get(2, [b""])[0]) for entry in entries}


def _message(data: bytes) -> dict[int, list[Any]]:
    """Return the values of each field, in order: integers for varints, bytes for all others."""
    found: dict[int, list[Any]] = {}
    for number, value in _fields(data):
        found.setdefault(number, []).append(value)
    return found


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in (_EIGHT_BYTES, _FOUR_BYTES):
            size = 8 if wire == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"not an ONNX file: wire type {wire} at byte {at}")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _text(raw: bytes) -> str:
    return raw.decode("utf-8")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _integers(values: list[Any]) -> list[int]:
    """Decode a repeated integer, packed or not."""
    found = []
    for value in values:
        if isinstance(value, int):
            found.append(_signed(value))
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            found.append(_signed(number))
    return found


def _node(raw: bytes) -> Node:
    fields = _message(raw)
    return Node(
        op=_text(fields[_NODE_OP][0]),
        inputs=tuple(map(_text, fields.get(_NODE_INPUT, []))),
        outputs=tuple(map(_text, fields.get(_NODE_OUTPUT, []))),
        attributes=dict(_attribute(raw) for raw in fields.get(_NODE_ATTRIBUTE, [])),
        name=_text(fields.get(_NODE_NAME, [b""])[0]),
    )


def _attribute(raw: bytes) -> tuple[str, Any]:
    """Decode an attribute, fields 2 to 8: numbers, a text, a tensor, a graph, lists of numbers."""
    fields = _message(raw)
    name = _text(fields[1][0])
    if 2 in fields:
        return name, struct.unpack("<f", fields[2][0])[0]
    if 3 in fields:
        return name, _signed(fields[3][0])
    if 4 in fields:
        return name, _text(fields[4][0])
    if 5 in fields:
        return name, _tensor(fields[5][0])[1]
    if 6 in fields:
        return name, _graph(fields[6][0])
    if 7 in fields:
        return name, np.frombuffer(b"".join(fields[7]), "<f4").tolist()
    return name, _integers(fields.get(8, []))


def _tensor(raw: bytes) -> tuple[str, Array]:
    fields = _message(raw)
    shape = _integers(fields.get(_TENSOR_DIMS, []))
    dtype = np.dtype(_DTYPES[fields[_TENSOR_DTYPE][0]])
    name = _text(fields.get(_TENSOR_NAME, [b""])[0])
    if _TENSOR_RAW in fields:
        return name, np.frombuffer(fields[_TENSOR_RAW][0], dtype).reshape(shape)
    for number, listed in _TENSOR_LISTS.items():
        if number not in fields:
            continue
        if listed == "<f4":
            return name, np.frombuffer(b"".join(fields[number]), "<f4").reshape(shape)
        return name, np.array(_integers(fields[number]), dtype).reshape(shape)
    return name, np.zeros(shape, dtype)
