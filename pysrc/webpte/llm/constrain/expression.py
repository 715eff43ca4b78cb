"""Regular expressions as trees: the step between patterns or schemas and automata.

A part may occur in several places; its automaton is then built once for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from webpte.llm.constrain.characters import ALL, Ranges, Spelling, common, without


@dataclass(frozen=True, eq=False)
class Chars:
    """One character of a set, in UTF-8."""

    ranges: Ranges


@dataclass(frozen=True, eq=False)
class Spelled:
    """One character in spellings of its own."""

    spelling: Spelling


@dataclass(frozen=True, eq=False)
class Text:
    """Exactly these bytes."""

    data: bytes


@dataclass(frozen=True, eq=False)
class Concatenation:
    """One part after the other."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, eq=False)
class Alternatives:
    """Any of the parts; without parts, nothing matches."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, eq=False)
class Repeated:
    """A part `least` to `most` times, with a separator between any two; `most` None is no limit."""

    part: Expression
    least: int
    most: int | None
    separator: bytes = b""


@dataclass(frozen=True, eq=False)
class Members:
    """Parts in order, some of them optional, with a separator between those that are present."""

    members: tuple[tuple[Expression, bool], ...]  # with whether it is required
    separator: bytes


@dataclass(frozen=True, eq=False)
class Both:
    """Texts that match both `one` and `other`; if `negated`, `one` and not `other`."""

    one: Expression
    other: Expression
    negated: bool = False


Expression = Chars | Spelled | Text | Concatenation | Alternatives | Repeated | Members | Both

# Characters that strings in JSON have to escape, as `json.dumps` does it.
_ESCAPES = {
    **{code: f"\\u{code:04x}" for code in range(0x20)},
    **{ord(one): f"\\{short}" for one, short in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)},
}
ESCAPED: Ranges = ((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C))


def in_json(expression: Expression) -> Expression:
    """Return the expression for the same texts as they are written in a JSON string.

    Each character has one spelling there, so that `Both` keeps its meaning.
    """
    match expression:
        case Chars(ranges):
            codes = (code for low, high in common(ranges, ESCAPED) for code in range(low, high + 1))
            escapes = [tuple((b, b) for b in _ESCAPES[code].encode()) for code in codes]
            plain = Spelling.of(without(common(ranges, ALL), ESCAPED))
            return Spelled(plain.with_more(escapes) if escapes else plain)
        case Concatenation(parts):
            return Concatenation(tuple(map(in_json, parts)))
        case Alternatives(parts):
            return Alternatives(tuple(map(in_json, parts)))
        case Repeated(part, least, most, b""):
            return Repeated(in_json(part), least, most)
        case Both(one, other, negated):
            return Both(in_json(one), in_json(other), negated)
    raise TypeError(f"{expression} does not come from a pattern")
