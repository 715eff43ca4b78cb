"""A JSON schema as an expression, for JSON with fixed spaces.

Supported are: `type` (also several), `properties` with `required`, `items` with `minItems` and
`maxItems` (an array without the three has any values), `enum`, `const`, `anyOf`, `oneOf` whose
schemas exclude each other, `$ref` within the schema; for strings `minLength`, `maxLength`, and
`pattern`, which the whole string matches; for numbers `minimum`, `maximum`, `exclusiveMinimum` and
`exclusiveMaximum`. Properties come in the schema's order; optional properties may be left out;
further properties are refused. Titles, descriptions, defaults and examples are ignored. All other
keywords are refused, and so are schemas that contain themselves: an automaton cannot count
brackets.

JSON is written as `json.dumps` writes it: with a space after each colon and comma, and no other
space.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from reprlib import repr as shown
from typing import Any, cast
from urllib.parse import unquote

from webpte.errors import InputError
from webpte.llm.constrain.characters import ALL, ByteRanges, Spelling, without
from webpte.llm.constrain.expression import (
    ESCAPED,
    Alternatives,
    Chars,
    Concatenation,
    EscapedChar,
    Expression,
    Intersection,
    Members,
    Repeated,
    Text,
    in_json,
)
from webpte.llm.constrain.json_values import Schema, SchemaComparison, is_of, text_of
from webpte.llm.constrain.number_range import BOUNDS, number_between
from webpte.llm.constrain.regex import expression_of

DEPTH = 40  # levels of nested schemas
# Objects and arrays within each other where a schema does not describe them; every level doubles
# the states of the automaton.
ANY_DEPTH = 5

_SAYS_NOTHING = {
    *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
    *("$schema", "$id", "$comment", "$defs", "definitions"),
}
_OF_TYPE = {
    "string": {"minLength", "maxLength", "pattern"},
    "array": {"items", "minItems", "maxItems"},
    "object": {"properties", "required", "additionalProperties"},
    "integer": set(BOUNDS),
    "number": set(BOUNDS),
}
_WHOLE = "-?(0|[1-9][0-9]{0,18})"
# No exponent makes a number of 19 digits too large for a double.
_EXPONENT = r"([eE](\+?([0-9]{1,2}|1[0-9]{2}|2[0-7][0-9])|-[0-9]{1,3}))?"
_PLAIN = {
    "boolean": "true|false",
    "null": "null",
    "integer": _WHOLE,
    "number": rf"{_WHOLE}(\.[0-9]{{1,18}})?{_EXPONENT}",
}
TYPES = tuple({**_PLAIN, **_OF_TYPE})


def _spellings(*places: str) -> list[ByteRanges]:
    """Return products of classes, each written as ranges: "az09" is a to z, and 0 to 9."""
    found: list[ByteRanges] = [()]
    for place in places:
        ranges = [(ord(a), ord(b)) for a, b in zip(place[::2], place[1::2], strict=True)]
        found = [(*before, one) for before in found for one in ranges]
    return found


_HEX = "09AFaf"


@cache
def _character() -> Expression:
    """Match a single character of a string, escaped or not, or a surrogate pair."""
    plain = Spelling.of(without(ALL, ESCAPED))
    return EscapedChar(
        plain.with_more(
            [
                *_spellings("\\\\", '""\\\\//bbffnnrrtt'),
                *_spellings("\\\\", "uu", "09ACEFacef", _HEX, _HEX, _HEX),
                *_spellings("\\\\", "uu", "DDdd", "07", _HEX, _HEX),
                *_spellings(
                    *("\\\\", "uu", "DDdd", "89ABab", _HEX, _HEX),
                    *("\\\\", "uu", "DDdd", "CFcf", _HEX, _HEX),
                ),
            ]
        )
    )


def json_of(schema: Schema) -> Expression:
    """Return an expression for all JSON that fits a schema; raise InputError if unsupported."""
    try:
        return _SchemaReader(schema).value(schema, "schema", (), None)
    except RecursionError as error:
        raise InputError("schema: values in values go too deep: nest them less") from error


@cache
def any_object() -> Expression:
    """Return the expression of any JSON object, as deep as an automaton of fair size allows."""
    return _any_object(ANY_DEPTH)


def _any_object(depth: int) -> Expression:
    key = Concatenation((json_of({"type": "string"}), Text(b": "), _any_value(depth - 1)))
    return Concatenation((Text(b"{"), Repeated(key, 0, None, b", "), Text(b"}")))


@cache
def _any_array(depth: int) -> Expression:
    items = Repeated(_any_value(depth - 1), 0, None, b", ")
    return Concatenation((Text(b"["), items, Text(b"]")))


def _any_value(depth: int) -> Expression:
    plain = json_of({"type": ["string", "number", "boolean", "null"]})
    return _either([plain, _any_object(depth), _any_array(depth)]) if depth else plain


class _SchemaReader:
    """Converts a schema.

    `at` is a place in the schema, for errors; `inside` are the schemas whose references led to this
    place; `types` are the types that the outer schemas allow, None for any.
    """

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._depth = 0
        self._comparison = SchemaComparison(self.find)
        # Each schema is read once for the same types, however many references lead to it.
        self._known: dict[tuple[int, frozenset[str] | None], Expression | _OtherTypeError] = {}

    def value(
        self, schema: Any, at: str, inside: tuple[int, ...], types: frozenset[str] | None
    ) -> Expression:
        if not isinstance(schema, Mapping):
            raise InputError(f"{at}: {shown(schema)} is not a schema that describes JSON")
        if self._depth >= DEPTH:
            raise InputError(f"{at}: schemas in schemas go more than {DEPTH} deep: nest them less")
        key = id(schema), types
        if key not in self._known:
            self._depth += 1
            try:
                self._known[key] = self._value(schema, at, inside, types)
            except _OtherTypeError as error:
                self._known[key] = error
            finally:
                self._depth -= 1
        found = self._known[key]
        if isinstance(found, _OtherTypeError):
            raise found
        return found

    def _value(
        self, schema: Schema, at: str, inside: tuple[int, ...], types: frozenset[str] | None
    ) -> Expression:
        keys = [k for k in ("$ref", "enum", "const", "anyOf", "oneOf") if k in schema]
        named = _types(schema, at) if "type" in schema or not keys else []
        types = _narrowed(types, named, at) if named else types
        if keys:
            self._check(schema, at, {keys[0], "type"})
            return self._by_key(keys[0], schema[keys[0]], f"{at}.{keys[0]}", inside, types)
        self._check(schema, at, {"type"}.union(*(_OF_TYPE.get(name, ()) for name in named)))
        # All types must be valid, also excluded types.
        read = {name: self._of_type(name, schema, at, inside) for name in named}
        return _either(
            [
                read.get(name) or self._of_type("integer", schema, at, inside)
                for name in sorted(types or ())
            ]
        )

    @staticmethod
    def _check(schema: Schema, at: str, known: set[str]) -> None:
        if unknown := [str(key) for key in schema if key not in known | _SAYS_NOTHING]:
            raise InputError(f"{at}: {', '.join(unknown)} is not supported: leave it out")

    def _by_key(
        self, key: str, given: Any, at: str, inside: tuple[int, ...], types: frozenset[str] | None
    ) -> Expression:
        if key == "$ref":
            return self._reference(given, at, inside, types)
        values = [given] if key == "const" else given
        if not isinstance(values, list | tuple) or not values:
            raise InputError(f"{at}: a list that is not empty is needed, not {shown(given)}")
        if key in ("enum", "const"):
            texts = [(one, Text(text_of(one, at))) for one in values]
            kept = [text for one, text in texts if types is None or is_of(one, types)]
            if not kept:
                raise _OtherTypeError(f"{at}: none of these is {' or '.join(sorted(types or ()))}")
            return _either(kept)
        parts = self._alternatives(values, at, inside, types)
        if key == "oneOf":
            for n, one in enumerate(values):
                for m, other in enumerate(values[:n]):
                    if not self._comparison.apart(one, other):
                        raise InputError(
                            f"{at}: a value may fit both {m} and {n}, which oneOf forbids: give "
                            "them other types, a required property with other values of `const`, "
                            "or write anyOf"
                        )
        return _either(parts)

    def _alternatives(
        self, values: Iterable[Any], at: str, inside: tuple[int, ...], types: frozenset[str] | None
    ) -> list[Expression]:
        parts, refused = [], None
        for n, one in enumerate(values):
            try:
                parts.append(self.value(one, f"{at}[{n}]", inside, types))
            except _OtherTypeError as error:  # a `type` next to the alternatives excludes it
                refused = error
                self.value(one, f"{at}[{n}]", inside, None)  # but the excluded type must be valid
        if refused is not None and not parts:
            raise refused
        return parts

    def _reference(
        self, given: Any, at: str, inside: tuple[int, ...], types: frozenset[str] | None
    ) -> Expression:
        found = self.find(given, at)
        if id(found) in inside or found is self._root:
            raise InputError(f"{at}: {given} contains itself, which is not supported")
        return self.value(found, at, (*inside, id(found)), types)

    def find(self, reference: Any, at: str) -> Any:
        """Follow a reference within the schema."""
        found: Any = self._root
        start, *names = reference.split("/") if isinstance(reference, str) else [""]
        for name in [unquote(name).replace("~1", "/").replace("~0", "~") for name in names]:
            if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, Mapping) and name in found:
                found = found[name]
            else:
                raise InputError(f"{at}: {shown(reference)} is not in the schema")
        if start != "#":
            raise InputError(f"{at}: {shown(reference)} is not in the schema: write '#/$defs/name'")
        return found

    def _of_type(self, name: str, schema: Schema, at: str, inside: tuple[int, ...]) -> Expression:
        match name:
            case "string":
                return _string(schema, at)
            case "array":
                return self._array(schema, at, inside)
            case "object":
                return self._object(schema, at, inside)
        if name in ("integer", "number") and schema.keys() & set(BOUNDS):
            return number_between(schema, name == "integer", at)
        return _plain(name)

    def _array(self, schema: Schema, at: str, inside: tuple[int, ...]) -> Expression:
        if "items" not in schema:
            if "minItems" in schema or "maxItems" in schema:
                raise InputError(f"{at}: `items` must describe what is in the array")
            return _any_array(ANY_DEPTH)
        item = self.value(schema["items"], f"{at}.items", inside, None)
        least, most = _bounds(schema, "minItems", "maxItems", at)
        return Concatenation((Text(b"["), Repeated(item, least, most, b", "), Text(b"]")))

    def _object(self, schema: Schema, at: str, inside: tuple[int, ...]) -> Expression:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if not isinstance(properties, Mapping) or not _are_texts(properties):
            raise InputError(f"{at}: properties are schemas by name, not {shown(properties)}")
        if not isinstance(required, list | tuple) or not _are_texts(required):
            raise InputError(f"{at}: required is a list of names, not {shown(required)}")
        if missing := set(required) - set(properties):
            raise InputError(f"{at}: `properties` does not describe {sorted(missing)}")
        if schema.get("additionalProperties", False) is not False:
            raise InputError(f"{at}: additionalProperties is not supported: leave it out")
        members = []
        for name, one in properties.items():
            place = f"{at}.properties.{name}"
            key = Text(text_of(name, place) + b": ")
            members.append(
                (Concatenation((key, self.value(one, place, inside, None))), name in required)
            )
        return Concatenation((Text(b"{"), Members(tuple(members), b", "), Text(b"}")))


@cache
def _plain(name: str) -> Expression:
    return expression_of(_PLAIN[name])


class _OtherTypeError(InputError):
    """A schema without any of the allowed types."""


def _types(schema: Schema, at: str) -> list[str]:
    given = schema.get("type")
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not names or any(name not in TYPES for name in names):
        known = ", ".join(sorted(TYPES))
        raise InputError(f"{at}: a type is needed, one of {known}, not {shown(given)}")
    return list(names)


def _narrowed(types: frozenset[str] | None, names: Iterable[str], at: str) -> frozenset[str]:
    """Intersect a schema's types with the allowed types; every integer is a number, too."""
    given = set(names)
    if types is not None:
        both = {"integer", "number"}
        whole = {"integer"} if given & both and types & both else set()
        given = (given & types) | whole
    if not given:
        raise _OtherTypeError(
            f"{at}: no type is left of {sorted(names)}, only {sorted(types or ())} are allowed"
        )
    return frozenset(given - {"integer"} if "number" in given else given)


def _string(schema: Schema, at: str) -> Expression:
    low, high = _bounds(schema, "minLength", "maxLength", at)
    if "pattern" not in schema:
        return Concatenation((Text(b'"'), Repeated(_character(), low, high), Text(b'"')))
    try:
        pattern = expression_of(schema["pattern"], portable=True)
    except InputError as error:
        raise InputError(f"{at}.pattern: {error}") from error
    if low or high is not None:
        pattern = Intersection(pattern, Repeated(Chars(ALL), low, high))
    return Concatenation((Text(b'"'), in_json(pattern), Text(b'"')))


def _either(parts: Sequence[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))


def _are_texts(given: Iterable[Any]) -> bool:
    return all(isinstance(one, str) for one in given)


def _bounds(schema: Schema, least: str, most: str, at: str) -> tuple[int, int | None]:
    low, high = schema.get(least, 0), schema.get(most)
    counts = [low, 0 if high is None and most not in schema else high]
    if not all(type(count) is int and count >= 0 for count in counts):
        raise InputError(f"{at}: {least} and {most} are counts, not {shown(low)} and {shown(high)}")
    if high is not None and high < low:
        raise InputError(f"{at}: {least} is {low}, but {most} is {high}")
    return cast(int, low), cast("int | None", high)
