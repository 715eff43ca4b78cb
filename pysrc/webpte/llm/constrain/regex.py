"""Patterns of Python's `re` as expressions.

They are read by `re`'s own parser, and the members of classes come from `re` itself, so a pattern
means the same here and there. Automata have no memory: patterns that need one (references,
lookbehind, atomic groups) are refused.
"""

from __future__ import annotations

import re
import re._parser as parser  # type: ignore[import-not-found]  # it has no public name
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from webpte.errors import InputError
from webpte.llm.constrain.characters import ALL, Ranges, common, of_text, union, without
from webpte.llm.constrain.expression import (
    Alternatives,
    Chars,
    Concatenation,
    Expression,
    Intersection,
    Repeated,
)

# No character after these is in a class, or has another case; a test checks it.
LAST_OF_CLASSES, LAST_OF_CASES = 0x3FFFF, 0x1FFFF
ANYTHING = Repeated(Chars(ALL), 0, None)

_AMBIGUOUS = re.compile(r"(?<!\\)(?:\\\\)*(\[\^?\]|\{,|\(\?[a-zA-Z-])")
_REFUSED = {
    "groupref": "references to groups",
    "groupref_exists": "conditions on groups",
    "atomic_group": "atomic groups",
    "possessive_repeat": "possessive repetitions",
}


def expression_of(pattern: str, *, portable: bool = False) -> Expression:
    """Read a pattern that a whole text has to match; raise InputError if it is not supported.

    portable  matches only texts that match in ECMAScript, too, whose classes differ: `\\d` then has
              the digits of both standards, `\\D` the characters that neither counts as a digit
    """
    if not isinstance(pattern, str):
        raise InputError(f"a regex is a text, not {pattern!r}")
    if portable and (found := _AMBIGUOUS.search(pattern)):
        raise InputError(
            f"the regex {pattern!r} has {found[1]!r}, which Python and ECMAScript read "
            "differently: write it in another way"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about syntax that may change its meaning
            tree = parser.parse(pattern)
        return _RegexReader(pattern, portable).row(list(tree), tree.state.flags, True, True)
    except (re.error, OverflowError) as error:
        raise InputError(f"{pattern!r} is not a regex: {error}") from error
    except RecursionError as error:
        raise InputError(f"the regex {pattern[:50]!r}... has too many groups in groups") from error


class _RegexReader:
    """Converts the parser's tree.

    `first` and `last`: whether a part begins and ends with the whole text; only there the meaning
    of ^, $ and lookahead is known.
    """

    def __init__(self, pattern: str, portable: bool) -> None:
        self._pattern = pattern
        self._portable = portable

    def row(self, items: Sequence[Any], flags: int, first: bool, last: bool) -> Expression:
        parts: list[Expression] = []
        named = [(str(code).lower(), given) for code, given in items]
        for number, (name, given) in enumerate(named):
            at_start, rest = first and not parts, named[number + 1 :]
            at_end = last and all(other == "at" for other, _ in rest)
            if name in ("assert", "assert_not"):
                after = self.row(items[number + 1 :], flags, at_start, last)
                parts.append(self._ahead(name, given, after, flags, last))
                break
            if name == "at":
                self._check_place(str(given), at_start, at_end)
            else:
                parts.append(self._part(name, given, flags, at_start, at_end))
        return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))

    def _part(self, name: str, given: Any, flags: int, first: bool, last: bool) -> Expression:
        match name:
            case "literal":
                return Chars(self._class([("literal", given)], flags))
            case "not_literal":
                return Chars(self._class([("negate", None), ("literal", given)], flags))
            case "in":
                return Chars(self._class([(str(c).lower(), one) for c, one in given], flags))
            case "any":
                ends = "\n\r\u2028\u2029" if self._portable else "\n"
                return Chars(ALL if flags & re.DOTALL else without(ALL, of_text(ends)))
            case "branch":
                return Alternatives(tuple(self.row(one, flags, first, last) for one in given[1]))
            case "subpattern":
                _, added, removed, inner = given
                return self.row(inner, (flags | added) & ~removed, first, last)
            case "max_repeat" | "min_repeat":
                least, most, inner = given
                part = self.row(inner, flags, False, False)
                return Repeated(part, least, None if most is parser.MAXREPEAT else most)
            case "failure":
                return Alternatives(())
        raise self._refusal(_REFUSED.get(name, name))

    def _ahead(
        self, name: str, given: Any, after: Expression, flags: int, last: bool
    ) -> Expression:
        direction, inner = given
        if direction < 0:
            raise self._refusal("lookbehind")
        if not last:
            raise self._refusal("lookahead in a group that something follows")
        seen = Concatenation((self.row(inner, flags, False, False), ANYTHING))
        return Intersection(after, seen, name == "assert_not")

    def _check_place(self, name: str, at_start: bool, at_end: bool) -> None:
        start = name in ("AT_BEGINNING", "AT_BEGINNING_STRING") and at_start
        end = name in ("AT_END", "AT_END_STRING") and at_end
        if not start and not end:
            raise self._refusal("^ or $ not at the ends, or a word boundary,")

    def _refusal(self, what: str) -> InputError:
        return InputError(f"{what} in the regex {self._pattern!r} is not supported: leave it out")

    def _class(self, items: list[tuple[str, Any]], flags: int) -> Ranges:
        """Return the characters of a class, given by its items in the parser's tree."""
        negated = items[0][0] == "negate"
        sets = [self._item(name, given, negated, flags) for name, given in items[negated:]]
        found = union(*sets)
        if negated:
            found = without(ALL, found)
        if flags & re.IGNORECASE:
            cased = _cased()
            matched = re.findall(_written(items), cased, flags & (re.ASCII | re.IGNORECASE))
            found = union(without(found, of_text(cased)), of_text("".join(matched)))
        return common(found, ALL)

    def _item(self, name: str, given: Any, negated: bool, flags: int) -> Ranges:
        if name == "literal":
            return ((given, given),)
        if name == "range":
            return (given,)
        letter = _letter(given)
        inside = _category(letter.lower(), flags & re.ASCII)
        if self._portable:
            # The class gets as few characters as possible, so a negated category gets as many.
            ours, theirs = inside, _ECMASCRIPT[letter.lower()]
            inside = (
                common(ours, theirs) if letter.islower() is not negated else union(ours, theirs)
            )
        return inside if letter.islower() else without(ALL, inside)


def _letter(category: Any) -> str:
    """Return the letter of a category of the parser's tree: `d` of \\d."""
    *_, negated, name = f"_{category}".split("_")
    return name[0].upper() if negated == "NOT" else name[0].lower()


def _written(items: list[tuple[str, Any]]) -> str:
    """Write a class in the syntax of `re`."""
    texts: dict[str, Callable[[Any], str]] = {
        "negate": lambda _: "^",
        "literal": lambda code: f"\\U{code:08x}",
        "range": lambda ends: f"\\U{ends[0]:08x}-\\U{ends[1]:08x}",
        "category": lambda name: f"\\{_letter(name)}",
    }
    return f"[{''.join(texts[name](given) for name, given in items)}]"


@lru_cache
def _category(letter: str, flags: int) -> Ranges:
    """Return all characters of \\d, \\s or \\w."""
    every = (
        np.arange(LAST_OF_CLASSES + 1, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    )
    return tuple((m.start(), m.end() - 1) for m in re.finditer(rf"\{letter}+", every, flags))


@lru_cache
def _cased() -> str:
    """Return all characters that have another case."""
    found = []
    for start in range(0, LAST_OF_CASES, 256):
        block = "".join(map(chr, range(start, start + 256)))
        if block.lower() != block or block.upper() != block:  # a few characters
            found += [one for one in block if one.lower() != one or one.upper() != one]
    return "".join(found)


_ECMASCRIPT: dict[str, Ranges] = {
    "d": ((0x30, 0x39),),
    "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    "s": union(
        of_text("\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"), ((0x2000, 0x200A),)
    ),
}
