"""Values in JSON schemas: their JSON, their types, and whether schemas exclude each other."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from math import isfinite
from reprlib import repr as shown
from typing import Any

from webpte.errors import InputError

Schema = Mapping[str, Any]

COMPARED = 100_000  # pairs in a schema; further pairs count as overlapping
DEPTH = 20  # nested levels to compare


def text_of(value: Any, at: str) -> bytes:
    """Return the JSON of a value; raise InputError for values without JSON."""
    try:
        _check(value)
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{at}: {shown(value)} has half a surrogate pair: leave it out") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{at}: {shown(value)} is not a value of JSON: {error}") from error


def _check(value: Any) -> None:
    """Raise for values that Python writes, but JSON does not have: keys other than texts, NaN."""
    if isinstance(value, dict):
        for key, one in value.items():
            if not isinstance(key, str):
                raise TypeError(f"the key {shown(key)} is not a text")
            _check(one)
    elif isinstance(value, list | tuple):
        for one in value:
            _check(one)
    elif isinstance(value, float) and not isfinite(value):
        raise ValueError("numbers must be finite")


def is_of(value: Any, types: frozenset[str]) -> bool:
    """Return whether a value has any of several types."""
    return bool(_types_of(value) & types)


def _types_of(value: Any) -> set[str]:
    match value:
        case None:
            return {"null"}
        case bool():
            return {"boolean"}
        case int():
            return {"integer", "number"}
        case float():
            return {"integer", "number"} if value.is_integer() else {"number"}
        case str():
            return {"string"}
        case dict():
            return {"object"}
    return {"array"}


def _identity(value: Any) -> Hashable:
    """Return a key that is equal for equal values of JSON: 1 is 1.0, but is not true."""
    match value:
        case dict():
            return "object", frozenset((key, _identity(one)) for key, one in value.items())
        case list() | tuple():
            return "array", tuple(map(_identity, value))
        case bool():
            return "boolean", value
    return value


class SchemaComparison:
    """Finds schemas that exclude each other, for up to COMPARED pairs.

    `find` looks up a reference. The schemas have been read before, so they are valid.
    """

    def __init__(self, find: Callable[[Any, str], Any]) -> None:
        self._find = find
        self._compared = 0

    def apart(self, one: Any, other: Any, depth: int = 0) -> bool:
        """Return whether it is certain that no value fits both schemas."""
        self._compared += 1
        if depth > DEPTH or self._compared > COMPARED:
            return False
        for first, second in ((one, other), (other, one)):
            if (parts := self._parts(first)) is not None:
                return all(self.apart(part, second, depth + 1) for part in parts)
        if "const" in one or "const" in other:
            return self._const_apart(one, other)
        shared = _types(one) & _types(other)
        if shared == {"object"}:
            return self._objects_apart(one, other, depth) or self._objects_apart(other, one, depth)
        return not shared

    def _parts(self, schema: Schema) -> list[Any] | None:
        """Return the alternatives of a schema; None for a schema without alternatives."""
        if "$ref" in schema:
            return [self._find(schema["$ref"], "$ref")]
        if "enum" in schema:
            return [{"const": value} for value in schema["enum"]]
        return schema.get("anyOf") or schema.get("oneOf")

    @staticmethod
    def _const_apart(one: Schema, other: Schema) -> bool:
        if "const" in one and "const" in other:
            return _identity(one["const"]) != _identity(other["const"])
        constant, free = (one, other) if "const" in one else (other, one)
        return not is_of(constant["const"], frozenset(_types(free)))

    def _objects_apart(self, one: Schema, other: Schema, depth: int) -> bool:
        """Return whether the first object requires a property that the second lacks or excludes."""
        closed = other.get("additionalProperties") is False
        named, others = one.get("properties", {}), other.get("properties", {})
        for name in one.get("required", ()):
            if name not in others:
                if closed:
                    return True
            elif self.apart(named[name], others[name], depth + 1):
                return True
        return False


def _types(schema: Schema) -> set[str]:
    given = schema["type"]
    names = {given} if isinstance(given, str) else set(given)
    return names | ({"integer"} if "number" in names else set())
