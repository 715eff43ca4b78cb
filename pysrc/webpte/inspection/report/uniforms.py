"""The params of a dispatch by their names in its WGSL.

A uniform block is bytes, and `struct Params` of the shader declares their meaning. Of WGSL's layout
this module knows only the types in our blocks: numbers of 32 bits, vectors, arrays, structs of
these.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Any

_STRUCT = re.compile(r"^struct (\w+) \{([^{}]*)\}", re.MULTILINE)
_FIELD = re.compile(r"\b(\w+): ((?:[^,<:]++|<(?:[^<>]++|<[^<>]*+>)*+>)++),")
_CONSTANT = re.compile(r"^const (\w+) = (\d+)u?;", re.MULTILINE)
_ALIAS = re.compile(r"^alias (\w+) = ([^;\n]+);", re.MULTILINE)
_VECTOR = re.compile(r"vec([234])(?:<(\w+)>|([fiu]))")
_ARRAY = re.compile(r"array<(.+), (\w+)>")
_LETTERS = {"u32": "I", "i32": "i", "f32": "f", "u": "I", "i": "i", "f": "f"}


class _UnknownLayoutError(Exception):
    """A WGSL type that this module does not know."""


@dataclass(frozen=True)
class _StructLayout:
    align: int
    size: int


def read_params(wgsl: str, data: bytes) -> dict[str, Any]:
    """Read params by name, as numbers and lists; {"as words": [...]} for an unknown layout."""
    try:
        return _ParamsReader(wgsl).read("Params", data)
    except (_UnknownLayoutError, struct.error):
        whole = data.ljust(-(-len(data) // 4) * 4, b"\0")
        return {"as words": list(struct.unpack(f"<{len(whole) // 4}I", whole))}


class _ParamsReader:
    def __init__(self, wgsl: str) -> None:
        text = re.sub(r"//[^\n]*", "", wgsl)
        self._structs = {
            name: [(field, kind.strip()) for field, kind in _FIELD.findall(body)]
            for name, body in _STRUCT.findall(text)
        }
        self._constants = {name: int(value) for name, value in _CONSTANT.findall(text)}
        self._aliases = dict(_ALIAS.findall(text))

    def read(self, name: str, data: bytes) -> dict[str, Any]:
        if name not in self._structs:
            raise _UnknownLayoutError(name)
        found: dict[str, Any] = self._value(name, data, 0)
        return found

    def _plain(self, kind: str) -> str:
        return self._plain(self._aliases[kind]) if kind in self._aliases else kind

    def _count(self, text: str) -> int:
        count = int(text.rstrip("u")) if text.rstrip("u").isdigit() else self._constants.get(text)
        if count is None:
            raise _UnknownLayoutError(text)
        return count

    def _layout(self, kind: str) -> _StructLayout:
        kind = self._plain(kind)
        if kind in _LETTERS:
            return _StructLayout(4, 4)
        if vector := _VECTOR.fullmatch(kind):
            return _StructLayout(8 if vector[1] == "2" else 16, 4 * int(vector[1]))
        if array := _ARRAY.fullmatch(kind):
            item = self._layout(array[1])
            return _StructLayout(item.align, self._count(array[2]) * _up(item.size, item.align))
        if kind in self._structs:
            end, align = 0, 4
            for _, field in self._structs[kind]:
                inner = self._layout(field)
                end, align = _up(end, inner.align) + inner.size, max(align, inner.align)
            return _StructLayout(align, _up(end, align))
        raise _UnknownLayoutError(kind)

    def _value(self, kind: str, data: bytes, at: int) -> Any:
        kind = self._plain(kind)
        if kind in _LETTERS:
            return struct.unpack_from(f"<{_LETTERS[kind]}", data, at)[0]
        if vector := _VECTOR.fullmatch(kind):
            letter = _LETTERS.get(vector[2] or vector[3])
            if letter is None:
                raise _UnknownLayoutError(kind)
            return list(struct.unpack_from(f"<{vector[1]}{letter}", data, at))
        if array := _ARRAY.fullmatch(kind):
            item = self._layout(array[1])
            step = _up(item.size, item.align)
            given = (len(data) - at) // step  # the unused end of the array is left out
            count = min(self._count(array[2]), given)
            return [self._value(array[1], data, at + i * step) for i in range(count)]
        found, end = {}, at
        for name, field in self._structs.get(kind, ()):
            layout = self._layout(field)
            start = _up(end, layout.align)
            found[name], end = self._value(field, data, start), start + layout.size
        return found


def _up(value: int, align: int) -> int:
    return -(-value // align) * align
