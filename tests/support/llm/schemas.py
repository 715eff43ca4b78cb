"""Random JSON schemas, valid and invalid, and a simple check of values against them."""

from __future__ import annotations

import re
from decimal import Decimal
from math import inf
from typing import Any

import numpy as np

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    1.0,
    -2.5,
    "",
    "a",
    'q"\\',
    "é\n",
    [],
    [1, "a"],
    {"a": 1},
]
PATTERNS = [
    *(".*", "^[^0-9]+$", "[ -~]{1,3}", r"\d+\.\d", r"\W\S?", "(a|b)*c", 'x|"|\\\\', "[\\n-é]*"),
    *("^(?!a).*$", r"[^\s\w]", "a", "[", 5, "(?<=a)b", "a{,3}"),
]
JUNK: list[Any] = [None, True, 0, -1, 2.5, "a", "string", b"x", [], [1], [[]], {}, {"a": 1}, {1: 2}]


class Schemas:
    """A generator of schemas. `wrong` is the probability of a value of a wrong type."""

    def __init__(self, rng: np.random.Generator, wrong: float) -> None:
        self._rng = rng
        self._wrong = wrong

    def draw(self) -> Any:
        schema = self._schema(3)
        if isinstance(schema, dict) and self._rng.random() < 0.4:
            schema["$defs"] = {name: self._schema(2) for name in ("a", "b/c", "d~%")}
        return schema

    def _one(self, options: list[Any]) -> Any:
        return options[self._rng.integers(len(options))]

    def _maybe_wrong(self, given: Any) -> Any:
        return self._one(JUNK) if self._rng.random() < self._wrong else given

    def _schema(self, depth: int) -> Any:
        kinds = ["type", "type", "type", "enum", "const", "types", "$ref"]
        kind = self._one([*kinds, "anyOf", "oneOf"] if depth else kinds)
        schema: dict[Any, Any] = {}
        if kind == "type":
            self._add_type(schema, self._one(TYPES), depth)
        elif kind == "types":
            schema["type"] = [self._one(TYPES[:4]) for _ in range(self._rng.integers(1, 3))]
        elif kind == "enum":
            schema["enum"] = [self._one(VALUES) for _ in range(self._rng.integers(1, 4))]
        elif kind == "const":
            schema["const"] = self._one(VALUES)
        elif kind == "$ref":
            schema["$ref"] = self._one(["#/$defs/a", "#/$defs/b~1c", "#/$defs/d~0%25", "#", "#/no"])
        else:
            schema[kind] = [self._schema(depth - 1) for _ in range(self._rng.integers(1, 4))]
        if kind != "type" and self._rng.random() < 0.2:
            schema["type"] = self._one(TYPES[:4])
        if self._rng.random() < 0.1:
            schema[self._one(["title", "description", "default", "minimum"])] = "x"
        if self._rng.random() < self._wrong:
            schema[self._one([*schema, "required", "properties"])] = self._one(JUNK)
        return self._maybe_wrong(schema)

    def _add_type(self, schema: dict[Any, Any], name: str, depth: int) -> None:
        schema["type"] = name
        if name == "string":
            self._add_bounds(schema, "minLength", "maxLength")
            if self._rng.random() < 0.4:
                schema["pattern"] = self._one(PATTERNS)
        elif name == "array":
            self._add_bounds(schema, "minItems", "maxItems")
            schema["items"] = self._schema(depth - 1) if depth else {"type": "null"}
        elif name == "object":
            names = ["a", "b", 'q"', "é"][: self._rng.integers(5)]
            inner = {n: self._schema(depth - 1) if depth else {"type": "null"} for n in names}
            schema["properties"] = self._maybe_wrong(inner)
            schema["required"] = self._maybe_wrong([n for n in names if self._rng.random() < 0.5])
            if self._rng.random() < 0.2:
                schema["additionalProperties"] = self._one([False, False, True, {}])

    def _add_bounds(self, schema: dict[Any, Any], least: str, most: str) -> None:
        for name in (least, most):
            if self._rng.random() < 0.3:
                schema[name] = self._maybe_wrong(int(self._rng.integers(4)))


TYPES = ["string", "integer", "number", "null", "boolean", "array", "object"]


def fits(value: Any, schema: Any, root: Any) -> bool:
    """Tell whether a value satisfies a schema, by the specification."""
    if isinstance(schema, bool):
        return schema
    checks = [
        all(fits(value, one, root) for one in schema.get("allOf", ())),
        "type" not in schema or _is_of(value, schema["type"]),
        "const" not in schema or same(value, schema["const"]),
        "enum" not in schema or any(same(value, one) for one in schema["enum"]),
        "anyOf" not in schema or any(fits(value, one, root) for one in schema["anyOf"]),
        "oneOf" not in schema or sum(fits(value, one, root) for one in schema["oneOf"]) == 1,
        "$ref" not in schema or fits(value, _found(schema["$ref"], root), root),
    ]
    if isinstance(value, str):
        checks.append(schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 1e9))
        checks.append(re.search(schema.get("pattern", ""), value) is not None)
    if isinstance(value, list):
        checks.append(schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 1e9))
        first = schema.get("prefixItems", [])
        checks += [fits(one, own, root) for one, own in zip(value, first, strict=False)]
        checks += [fits(one, schema.get("items", {}), root) for one in value[len(first) :]]
    if _is_of(value, "number"):
        checks.append(schema.get("minimum", -inf) <= value <= schema.get("maximum", inf))
        over, under = schema.get("exclusiveMinimum", -inf), schema.get("exclusiveMaximum", inf)
        checks.append(over < value < under)
        if "multipleOf" in schema:
            checks.append(Decimal(str(value)) % Decimal(str(schema["multipleOf"])) == 0)
    if isinstance(value, dict):
        known = schema.get("properties", {})
        checks.append(set(schema.get("required", [])) <= set(value))
        checks += [fits(one, known[name], root) for name, one in value.items() if name in known]
        more = schema.get("additionalProperties", True)
        checks += [fits(one, more, root) for name, one in value.items() if name not in known]
    return all(checks)


def _is_of(value: Any, types: Any) -> bool:
    names = [types] if isinstance(types, str) else types
    number = isinstance(value, int | float) and not isinstance(value, bool)
    true = {
        "null": value is None,
        "boolean": isinstance(value, bool),
        "number": number,
        "integer": number and float(value).is_integer(),
        "string": isinstance(value, str),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
    }
    return any(true[name] for name in names)


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal as JSON, where true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def _found(reference: str, root: Any) -> Any:
    if reference == "#":
        return root
    name = reference.removeprefix("#/$defs/")
    return root["$defs"][{"b~1c": "b/c", "d~0%25": "d~%"}.get(name, name)]
