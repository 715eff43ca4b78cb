"""Answers in JSON, described apart from the engine that enforces them."""

from __future__ import annotations

from dataclasses import dataclass

from webpte.llm.constrain.expression import Alternatives, Concatenation, Expression, Text
from webpte.llm.constrain.json_schema import json_of
from webpte.llm.constrain.json_values import Schema


@dataclass(frozen=True)
class JsonForm:
    """JSON of a schema, between two texts.

    automaton  the expression of a schema that `json_of` does not convert
    """

    schema: Schema
    before: str = ""
    after: str = ""
    automaton: Expression | None = None

    def expression(self) -> Expression:
        """Return the automaton's expression; raise InputError for an unsupported schema."""
        json = json_of(self.schema) if self.automaton is None else self.automaton
        return Concatenation((Text(self.before.encode()), json, Text(self.after.encode())))


@dataclass(frozen=True)
class JsonAnswer:
    """A choice among forms of JSON; errors use its `name`."""

    forms: tuple[JsonForm, ...]
    name: str = "the schema"

    def expression(self) -> Expression:
        """Return the automaton's expression; raise InputError for an unsupported schema."""
        if len(self.forms) == 1:
            return self.forms[0].expression()
        return Alternatives(tuple(form.expression() for form in self.forms))
