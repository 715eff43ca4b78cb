"""Calls of tools in Gemma's form: `call:NAME{key:value,...}` with marks around texts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

_SPACE = " \t\r\n"
_WORDS = {"true": True, "false": False, "null": None}
MOST_DEPTH = 64


class GemmaCallError(Exception):
    """A text that is not a call."""


def read_call(text: str, quote: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of a call; `quote` is before and after each text.

    Texts without the mark become `UnquotedValue`, since only a schema decides their type. Arguments
    may also be JSON. Raises GemmaCallError.
    """
    head, brace, rest = text.strip().partition("{")
    begin, name = head[: len("call:")], head[len("call:") :].strip()
    if begin != "call:" or not name or not brace:
        raise GemmaCallError("a call begins with call:NAME{")
    try:
        table = json.loads(brace + rest)
    except (ValueError, RecursionError):
        table = _Reader(brace + rest, quote).whole()
    return name, table


class UnquotedValue(str):
    """A value without quotes: a number, a word, or a text that a model forgot to quote."""

    __slots__ = ()


class _Reader:
    """Reads a table of arguments."""

    def __init__(self, text: str, quote: str) -> None:
        self._text, self._quote, self._at = text, quote, 0

    def whole(self) -> dict[str, Any]:
        table = self._table(0)
        self._skip_space()
        if self._at < len(self._text):
            raise GemmaCallError("something follows the arguments")
        return table

    def _table(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self._take("{")
        while not self._is_next("}"):
            if found:
                self._take(",")
            key = self._text_in_quotes() if self._is_next(self._quote) else self._until(":")
            self._take(":")
            found[key.strip()] = self._value(depth + 1)
        self._take("}")
        return found

    def _list(self, depth: int) -> list[Any]:
        found: list[Any] = []
        self._take("[")
        while not self._is_next("]"):
            if found:
                self._take(",")
            found.append(self._value(depth + 1))
        self._take("]")
        return found

    def _value(self, depth: int) -> Any:
        if depth > MOST_DEPTH:
            raise GemmaCallError("the arguments are nested too deeply")
        if self._is_next(self._quote):
            return self._text_in_quotes()
        if self._is_next("{"):
            return self._table(depth)
        if self._is_next("["):
            return self._list(depth)
        return UnquotedValue(self._until(",]}").strip())

    def _text_in_quotes(self) -> str:
        self._take(self._quote)
        end = self._text.find(self._quote, self._at)
        if end < 0:
            raise GemmaCallError("a text has no end")
        text, self._at = self._text[self._at : end], end + len(self._quote)
        return text

    def _until(self, ends: str) -> str:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in ends:
            self._at += 1
        if self._at in (start, len(self._text)):
            raise GemmaCallError(f"something is missing at {self._at}")
        return self._text[start : self._at]

    def _skip_space(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in _SPACE:
            self._at += 1

    def _is_next(self, mark: str) -> bool:
        self._skip_space()
        return self._text.startswith(mark, self._at)

    def _take(self, mark: str) -> None:
        if not self._is_next(mark):
            raise GemmaCallError(f"{mark} is missing at {self._at}")
        self._at += len(mark)


def as_schema_says(value: Any, schema: Any) -> Any:
    """Return arguments with unquoted values converted by their schema, or else by their text."""
    known = schema if isinstance(schema, Mapping) else {}
    if isinstance(value, dict):
        types = known.get("properties")
        inner = types if isinstance(types, Mapping) else {}
        return {key: as_schema_says(one, inner.get(key)) for key, one in value.items()}
    if isinstance(value, list):
        return [as_schema_says(one, known.get("items")) for one in value]
    if not isinstance(value, UnquotedValue):
        return value
    kinds = known.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return str(value) if "string" in kinds else _plain(str(value))


def _plain(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if "_" not in text and math.isfinite(number):
            return number
    return text
