"""Any JSON object or array as an expression, nested as deep as an automaton of fair size allows."""

from __future__ import annotations

from functools import cache

from webpte.llm.constrain.expression import Alternatives, Concatenation, Expression, Repeated, Text
from webpte.llm.constrain.json_schema import json_of

DEPTH = 5  # objects and arrays within each other; every level doubles the states


@cache
def any_object() -> Expression:
    """Return the expression of any JSON object, written as by `json.dumps`."""
    return _object(DEPTH)


@cache
def any_array() -> Expression:
    """Return the expression of any JSON array, written as by `json.dumps`."""
    return _array(DEPTH)


def _array(depth: int) -> Expression:
    items = Repeated(_value(depth - 1), 0, None, b", ")
    return Concatenation((Text(b"["), items, Text(b"]")))


def _object(depth: int) -> Expression:
    key = Concatenation((json_of({"type": "string"}), Text(b": "), _value(depth - 1)))
    return Concatenation((Text(b"{"), Repeated(key, 0, None, b", "), Text(b"}")))


def _value(depth: int) -> Expression:
    plain = json_of({"type": ["string", "number", "boolean", "null"]})
    if depth == 0:
        return plain
    return Alternatives((plain, _object(depth), _array(depth)))
