"""Reader of untrusted JSON with limits of size and depth and a single kind of error.

It uses only the standard library, and no other module of the package: the host loads this file
without the package, because NumPy may not be installed there. The caller chooses the error that is
raised (`fail`).

    card = parse_table(data, "card.json", CardError)
    order = card.number("order", 50)   # "card.json: order must be a number, got 'first'"
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

MAX_BYTES = 1 << 26  # twice the largest tokenizer.json in use
MAX_DEPTH = 100

Fail = Callable[[str], Exception]
T = TypeVar("T")

_REQUIRED: Any = object()
_STEP = 1 << 20
_BRACKETS = b"[]{}"
_OTHERS = bytes(code for code in range(256) if code not in _BRACKETS)
_CHANGE = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def parse_json(
    data: bytes | str,
    name: str,
    fail: Fail,
    *,
    max_bytes: int = MAX_BYTES,
    not_finite: bool = False,
) -> Any:
    """Parse a JSON text; `name` is the file's name, for errors.

    Numbers that are not valid JSON (NaN, Infinity, 1e999) are refused, because they could not be
    written as JSON again, unless `not_finite` allows them for this format.
    """
    encoded = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(encoded) > max_bytes:
        raise fail(f"{name} has {len(encoded):,} bytes; at most {max_bytes:,} are read as JSON")
    if _is_deeper(encoded, MAX_DEPTH):
        raise fail(f"{name} is nested deeper than {MAX_DEPTH} levels")
    hooks: Any = {} if not_finite else {"parse_float": _finite, "parse_constant": _no_constant}
    try:
        return json.loads(data if isinstance(data, str) else data.decode("utf-8-sig"), **hooks)
    except UnicodeDecodeError as error:
        raise fail(f"{name} is not UTF-8: {error}") from error
    except (ValueError, RecursionError) as error:  # a ValueError also: a number of 5,000 digits
        raise fail(f"{name} is not JSON: {error}") from error


def read_json(path: Path, fail: Fail, *, not_finite: bool = False) -> Any:
    """Parse a JSON file."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # a ValueError: a name with a NUL
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise fail(f"{path} cannot be read: {why}") from error
    return parse_json(data, str(path), fail, not_finite=not_finite)


def read_table(path: Path, fail: Fail, *, not_finite: bool = False) -> Table:
    """Parse a JSON file that must hold an object."""
    return _table(read_json(path, fail, not_finite=not_finite), str(path), fail)


def parse_table(data: bytes | str, name: str, fail: Fail, *, not_finite: bool = False) -> Table:
    """Parse a JSON text that must hold an object."""
    return _table(parse_json(data, name, fail, not_finite=not_finite), name, fail)


def _table(content: object, name: str, fail: Fail) -> Table:
    if not isinstance(content, dict):
        raise fail(f"{name} must be {_ARTICLES['table']}, got {shown(content)}")
    return Table(content, name, fail)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is beyond what numbers can be")
    return value


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def _is_deeper(encoded: bytes, most: int) -> bool:
    """Return whether brackets outside of strings are nested deeper than `most`.

    The parser recurses at each level: on a small stack, as in a browser, it would end the
    interpreter before Python could raise. Files are large, so this takes only a few calls per MiB.
    """
    if encoded.count(b"[") + encoded.count(b"{") <= most:
        return False
    if b"\\" in encoded:
        encoded = encoded.replace(b"\\\\", b"").replace(b'\\"', b"")
    depth = inside = 0
    for start in range(0, len(encoded), _STEP):
        parts = encoded[start : start + _STEP].split(b'"')
        for code in b"".join(parts[inside::2]).translate(None, _OTHERS):
            depth += _CHANGE[code]
            if depth > most:
                return True
        inside ^= (len(parts) - 1) & 1
    return False


def shown(value: object) -> str:
    """Return a value as a short line of text, for an error message."""
    try:
        text = json.dumps(value)
    except (ValueError, TypeError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= 60 else f"{text[:57]}..."


_ARTICLES = {
    "text": "a text",
    "number": "a number",
    "integer": "an integer",
    "flag": "true or false",
    "table": "a table ({...})",
    "list": "a list",
}


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1e300  # a larger int has no float; excludes infinities and NaN, too


class Table:
    """A JSON object; members are checked when they are read.

    Each method takes the key, and a default for a missing member; without a default, the member is
    required.
    """

    def __init__(self, content: Mapping[str, Any], name: str, fail: Fail) -> None:
        self.content = content
        self.name = name
        self._fail = fail

    def __contains__(self, key: str) -> bool:
        return key in self.content

    def text(self, key: str, default: T = _REQUIRED) -> str | T:
        return self._checked(key, default, "text", lambda value: isinstance(value, str))

    def flag(self, key: str, default: T = _REQUIRED) -> bool | T:
        return self._checked(key, default, "flag", lambda value: isinstance(value, bool))

    def number(self, key: str, default: T = _REQUIRED) -> float | T:
        return self._checked(key, default, "number", _is_number)

    def integer(
        self, key: str, default: T = _REQUIRED, *, low: int = -(1 << 53), high: int = 1 << 53
    ) -> int | T:
        """Return an integer from `low` to `high`."""
        found = self._checked(key, default, "integer", lambda value: type(value) is int)
        if key in self.content and not low <= found <= high:
            raise self._fail(
                f"{self.name}: {key} must be from {low:,} to {high:,}, got {shown(found)}"
            )
        return found

    def listed(self, key: str, default: T = _REQUIRED) -> list[Any] | T:
        return self._checked(key, default, "list", lambda value: isinstance(value, list))

    def table(self, key: str, default: T = _REQUIRED) -> Table | T:
        found = self._checked(key, default, "table", lambda value: isinstance(value, Mapping))
        return self._inner(found, key) if key in self.content else found

    def tables(self, key: str) -> Iterator[Table]:
        """Yield the members of a list of objects; none if the list is missing."""
        for at, value in enumerate(self.listed(key, [])):
            where = f"{key}[{at}]"
            if not isinstance(value, Mapping):
                raise self._fail(self._told(where, "table", value))
            yield self._inner(value, where)

    def _inner(self, content: Any, where: str) -> Table:
        return Table(content, f"{self.name}: {where}", self._fail)

    def _checked(self, key: str, default: Any, kind: str, fits: Callable[[Any], bool]) -> Any:
        if key not in self.content:
            if default is _REQUIRED:
                raise self._fail(f"{self.name} lacks {key!r}")
            return default
        value = self.content[key]
        if not fits(value):
            raise self._fail(self._told(key, kind, value))
        return value

    def _told(self, where: str, kind: str, value: object) -> str:
        return f"{self.name}: {where} must be {_ARTICLES[kind]}, got {shown(value)}"
