"""Regular expressions as trees: the step between patterns or schemas and automata.

A part may occur in several places; its automaton is then built for each place.
"""

from __future__ import annotations

from dataclasses import dataclass

from webpte.llm.constrain.characters import ALL, Ranges, Spelling, common, without


@dataclass(frozen=True, eq=False)
class Chars:
    """A character of a set, in UTF-8."""

    ranges: Ranges


@dataclass(frozen=True, eq=False)
class EscapedChar:
    """A character that may be written in several ways, such as a quote after a backslash."""

    spelling: Spelling


@dataclass(frozen=True, eq=False)
class Text:
    """Exactly these bytes."""

    data: bytes


@dataclass(frozen=True, eq=False)
class Concatenation:
    """Parts in sequence."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, eq=False)
class Alternatives:
    """Any of the parts; without parts, nothing matches."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, eq=False)
class Repeated:
    """A part `least` to `most` times, separated; a `most` of None means any number."""

    part: Expression
    least: int
    most: int | None
    separator: bytes = b""


@dataclass(frozen=True, eq=False)
class Members:
    """Parts in order, some of them optional, with a separator between the present parts."""

    members: tuple[tuple[Expression, bool], ...]  # each with whether it is required
    separator: bytes


@dataclass(frozen=True, eq=False)
class Intersection:
    """Texts that match both `one` and `other`; if `negated`, texts of `one` that fail `other`."""

    one: Expression
    other: Expression
    negated: bool = False


Expression = (
    Chars | EscapedChar | Text | Concatenation | Alternatives | Repeated | Members | Intersection
)

# Characters that `json.dumps` escapes in strings.
_ESCAPES = {
    **{code: f"\\u{code:04x}" for code in range(0x20)},
    **{ord(one): f"\\{short}" for one, short in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)},
}
ESCAPED: Ranges = ((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C))


def in_json(expression: Expression) -> Expression:
    """Return the expression for the same texts, spelled as in a JSON string.

    Each character has a single spelling there, so that `Intersection` keeps its meaning.
    """
    match expression:
        case Chars(ranges):
            codes = (code for low, high in common(ranges, ESCAPED) for code in range(low, high + 1))
            escapes = [tuple((b, b) for b in _ESCAPES[code].encode()) for code in codes]
            plain = Spelling.of(without(common(ranges, ALL), ESCAPED))
            return EscapedChar(plain.with_more(escapes) if escapes else plain)
        case Concatenation(parts):
            return Concatenation(tuple(map(in_json, parts)))
        case Alternatives(parts):
            return Alternatives(tuple(map(in_json, parts)))
        case Repeated(part, least, most, b""):
            return Repeated(in_json(part), least, most)
        case Intersection(one, other, negated):
            return Intersection(in_json(one), in_json(other), negated)
    raise TypeError(f"{expression} does not come from a pattern")
