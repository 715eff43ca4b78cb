"""Closes objects in a JSON schema: only the named properties are allowed.

JSON Schema lets an object have any further properties unless `additionalProperties` forbids it. A
model that may invent properties often does not stop. So an object is closed unless its schema
mentions further properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webpte.llm.constrain.json_values import Schema

_ONE = ("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SEVERAL = ("anyOf", "oneOf", "prefixItems")
# Keywords that describe further properties, or combine an object with another schema.
_OPENS = {
    *("additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames"),
    *("minProperties", "dependentSchemas", "if"),
}
_COMBINES = {"$ref", "anyOf", "oneOf"}
_OF_OBJECTS = {"properties", "required", *_OPENS}


def closed(schema: Schema) -> Schema:
    """Return the schema with closed objects; unchanged if it combines objects from parts."""
    return schema if _is_combined(schema) else _close(schema)


def _is_combined(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    if "allOf" in schema or (_COMBINES & schema.keys() and _OF_OBJECTS & schema.keys()):
        return True
    return any(_is_combined(one) for one in _inner(schema))


def _inner(schema: Mapping[str, Any]) -> list[Any]:
    found = [schema[name] for name in _ONE if name in schema]
    for name in _NAMED:
        if isinstance(schema.get(name), Mapping):
            found += schema[name].values()
    for name in _SEVERAL:
        if isinstance(schema.get(name), list | tuple):
            found += schema[name]
    return found


def _close(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    made = dict(schema)
    for name in _ONE:
        if name in made:
            made[name] = _close(made[name])
    for name in _NAMED:
        if isinstance(made.get(name), Mapping):
            made[name] = {key: _close(value) for key, value in made[name].items()}
    for name in _SEVERAL:
        if isinstance(made.get(name), list | tuple):
            made[name] = [_close(one) for one in made[name]]
    named = made.get("properties")
    if isinstance(named, Mapping) and not _OPENS & made.keys():
        required = made.get("required", ())
        if isinstance(required, list | tuple) and all(name in named for name in required):
            made["additionalProperties"] = False
    return made
