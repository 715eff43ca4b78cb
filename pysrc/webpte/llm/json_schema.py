"""A JSON schema as a regular expression, for JSON written in one way.

Known are: `type` (also several), `properties` with `required`, `items` with `minItems` and
`maxItems`, `enum`, `const`, `anyOf` and `oneOf` (the first that fits is not looked for: any does),
`$ref` within the schema, and for strings `minLength`, `maxLength`, and `pattern`. Properties come
in the schema's order; those that are not required may be left out. Others do not come at all.
Titles, descriptions, defaults and examples change nothing. Whatever else a schema says is refused,
and so is what contains itself: a regular expression cannot count brackets.

JSON is written as `json.dumps` writes it: a space behind each colon and comma, and no other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from webpte.errors import InputError

Schema = Mapping[str, Any]

_CHARACTER = r'([^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})'
_PLAIN = {
    "boolean": "(true|false)",
    "null": "null",
    "integer": "-?(0|[1-9][0-9]{0,18})",
    "number": r"-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,3})?",
}

_SAYS_NOTHING = {
    *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
    *("$schema", "$id", "$comment", "$defs", "definitions"),
}
_OF_TYPE = {
    "string": {"minLength", "maxLength", "pattern"},
    "array": {"items", "minItems", "maxItems"},
    "object": {"properties", "required", "additionalProperties"},
}


def regex_of(schema: Schema) -> str:
    """Raises InputError for what it does not know."""
    return _Writer(schema).value(schema, "schema", ())


class _Writer:
    """`at` says where in the schema something is, `inside` which references led there."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._types: dict[str, Callable[[Schema, str, tuple[str, ...]], str]] = {
            "string": self._string,
            "array": self._array,
            "object": self._object,
        }

    def value(self, schema: Any, at: str, inside: tuple[str, ...]) -> str:
        if not isinstance(schema, Mapping):
            raise InputError(f"{at}: {schema!r} is no schema that says what JSON to write")
        for key in ("$ref", "enum", "const", "anyOf", "oneOf"):
            if key in schema:
                self._check(schema, at, {key, "type"})
                return self._by_key(key, schema[key], f"{at}.{key}", inside)
        types = schema.get("type")
        names = [types] if isinstance(types, str) else types
        if not names or not all(name in self._types or name in _PLAIN for name in names):
            known = ", ".join(sorted({*self._types, *_PLAIN}))
            raise InputError(f"{at}: a type is needed, one of {known}, not {types!r}")
        self._check(schema, at, {"type"}.union(*(_OF_TYPE.get(name, ()) for name in names)))
        return _either(
            [
                self._types[name](schema, at, inside) if name in self._types else _PLAIN[name]
                for name in names
            ]
        )

    @staticmethod
    def _check(schema: Schema, at: str, known: set[str]) -> None:
        if unknown := [key for key in schema if key not in known | _SAYS_NOTHING]:
            raise InputError(f"{at}: {', '.join(unknown)} cannot be kept to, so leave it out")

    def _by_key(self, key: str, given: Any, at: str, inside: tuple[str, ...]) -> str:
        if key == "$ref":
            if given in inside:
                raise InputError(
                    f"{at}: {given} contains itself, which is more than can be kept to"
                )
            return self.value(self._find(given, at), at, (*inside, given))
        if key == "const":
            return _literal(given)
        if not isinstance(given, Sequence) or not given:
            raise InputError(f"{at}: a list with something in it is needed, not {given!r}")
        if key == "enum":
            return _either([_literal(one) for one in given])
        return _either([self.value(one, f"{at}[{n}]", inside) for n, one in enumerate(given)])

    def _find(self, reference: str, at: str) -> Any:
        found: Any = self._root
        for name in reference.removeprefix("#").strip("/").split("/"):
            if not reference.startswith("#") or not isinstance(found, Mapping) or name not in found:
                raise InputError(f"{at}: {reference!r} is not in the schema")
            found = found[name]
        return found

    def _string(self, schema: Schema, at: str, _: tuple[str, ...]) -> str:
        if "pattern" in schema:
            if {"minLength", "maxLength"} & schema.keys():
                raise InputError(f"{at}: a pattern and a length at once cannot be kept to")
            pattern = str(schema["pattern"])
            if re.search(r'["\\]', re.sub(r"\\[dw.+*?()\[\]{}|^$/-]", "", pattern)):
                raise InputError(
                    f"{at}: in the pattern {pattern!r} are characters that JSON escapes"
                )
            return f'"({pattern.removeprefix("^").removesuffix("$")})"'
        return f'"{_CHARACTER}{_times(schema, "minLength", "maxLength", at)}"'

    def _array(self, schema: Schema, at: str, inside: tuple[str, ...]) -> str:
        if "items" not in schema:
            raise InputError(f"{at}: `items` must say what is in the array")
        item = self.value(schema["items"], f"{at}.items", inside)
        least, most = _bounds(schema, "minItems", "maxItems", at)
        if most == 0:
            return r"\[\]"
        rest = f"(, {item}){_repeated(max(least - 1, 0), None if most is None else most - 1)}"
        whole = f"{item}{rest}"
        return rf"\[{whole}\]" if least else rf"\[({whole})?\]"

    def _object(self, schema: Schema, at: str, inside: tuple[str, ...]) -> str:
        properties, required = schema.get("properties", {}), set(schema.get("required", ()))
        if missing := required - set(properties):
            raise InputError(f"{at}: `properties` does not say what {sorted(missing)} are")
        if schema.get("additionalProperties"):
            raise InputError(f"{at}: additionalProperties cannot be kept to, so leave it out")
        members = [
            (
                f"{_literal(name)}: {self.value(one, f'{at}.properties.{name}', inside)}",
                name in required,
            )
            for name, one in properties.items()
        ]
        return rf"\{{{_members(members)}\}}"


def _members(members: list[tuple[str, bool]]) -> str:
    """With commas between those that are there: the first of them has none before it."""
    first = next((n for n, (_, required) in enumerate(members) if required), None)
    if first is not None:
        before = "".join(f"({text}, )?" for text, _ in members[:first])
        return f"{before}{members[first][0]}{_after_comma(members[first + 1 :])}"
    starts = [text + _after_comma(members[n + 1 :]) for n, (text, _) in enumerate(members)]
    return f"({_either(starts)})?" if starts else ""


def _after_comma(members: list[tuple[str, bool]]) -> str:
    return "".join(f"(, {text})" + ("" if required else "?") for text, required in members)


def _either(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({'|'.join(parts)})"


def _literal(value: Any) -> str:
    """The JSON of a value, to be matched as it is."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(f"\\{c}" if c in r"\.^$*+?{}[]|()" else c for c in text)


def _times(schema: Schema, least: str, most: str, at: str) -> str:
    return _repeated(*_bounds(schema, least, most, at))


def _bounds(schema: Schema, least: str, most: str, at: str) -> tuple[int, int | None]:
    low, high = schema.get(least, 0), schema.get(most)
    if not isinstance(low, int) or low < 0 or not (high is None or isinstance(high, int)):
        raise InputError(f"{at}: {least} and {most} are numbers, not {low!r} and {high!r}")
    if high is not None and high < low:
        raise InputError(f"{at}: {least} is {low}, but {most} is {high}")
    return low, high


def _repeated(least: int, most: int | None) -> str:
    return f"{{{least},{'' if most is None else most}}}" if least or most is not None else "*"
