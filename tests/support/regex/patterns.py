"""Finds the regular expressions of source files, and makes strings that are hard for each.

A pattern is read from the source, not from modules, so that modules that need PyTorch or a browser
are found, too. Strings are made of the pattern itself: what leads to a repeat, the repeat many
times, then text that does not match.
"""

from __future__ import annotations

import ast
import re
import re._compiler as compiler  # type: ignore[import-not-found]  # they have no public names
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ANCHORED = ("match", "fullmatch")  # these begin at one place
SCANNING = ("search", "finditer", "findall", "sub", "subn", "split")
_REPEATS = (parser.MAX_REPEAT, parser.MIN_REPEAT, parser.POSSESSIVE_REPEAT)
_MORE = " \t\na0_\x00"  # tried besides the characters of the pattern
_UNLIMITED = 64  # a repeat of so many times is one without a limit


@dataclass(frozen=True)
class Pattern:
    """A regular expression of a source file; `text` is None if it is not a constant there."""

    place: str
    written: str
    text: str | None
    flags: int
    methods: tuple[str, ...]

    def runs(self) -> Iterator[tuple[str, re.Pattern[str]]]:
        assert self.text is not None
        compiled = re.compile(self.text, self.flags)
        for method in self.methods:
            yield method, compiled


def find_patterns(file: Path, root: Path) -> Iterator[Pattern]:
    """Yield each pattern that a file gives to `re`, with the methods that it is used by."""
    text = file.read_text(encoding="utf-8")
    if not re.search(r"\bre\b", text):  # most files: a tree of each would take seconds
        return
    tree = ast.parse(text)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    uses: dict[str, set[str]] = {}
    for call in calls:
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            uses.setdefault(call.func.value.id, set()).add(call.func.attr)
    named = {
        id(node.value): node.targets[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    loops = [
        name.id
        for node in ast.walk(tree)
        if isinstance(node, ast.For | ast.comprehension)
        for name in ast.walk(node.target)
        if isinstance(name, ast.Name)
    ]
    for call in calls:
        function = call.func
        if not (isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)):
            continue
        if function.value.id != "re" or function.attr not in ("compile", *ANCHORED, *SCANNING):
            continue
        methods = {function.attr}
        if function.attr == "compile":
            names = [named[id(call)]] if id(call) in named else loops
            used = set().union(*(uses.get(name, set()) for name in names))
            methods = used & {*ANCHORED, *SCANNING}
        first = call.args[0]
        constant = first.value if isinstance(first, ast.Constant) else None
        yield Pattern(
            f"{file.relative_to(root)}:{call.lineno}",
            ast.unparse(first),
            constant if isinstance(constant, str) else None,
            _flags(call),
            tuple(sorted(methods or {"search"})),
        )


def _flags(call: ast.Call) -> int:
    given = [*call.args[1:], *(word.value for word in call.keywords)]
    names = [node for one in given for node in ast.walk(one) if isinstance(node, ast.Attribute)]
    total = 0
    for name in names:
        if ast.unparse(name.value) == "re":
            total |= int(getattr(re, name.attr))
    return total


def run(compiled: re.Pattern[str], method: str, text: str) -> None:
    """Use a pattern on a text as the source does: to its end, where the method goes on."""
    if method in ANCHORED:
        getattr(compiled, method)(text)
    elif method == "search":
        compiled.search(text)
    else:
        for _ in compiled.finditer(text):
            pass


class HardStrings:
    """Strings that are hard for a pattern, each as (before, repeated, after)."""

    def __init__(self, text: str, flags: int) -> None:
        self._tree = parser.parse(text, flags)
        own = [char for char in dict.fromkeys(text) if not char.isalnum()]
        self._letters = list(dict.fromkeys([*_MORE, *own]))

    def all(self) -> list[tuple[str, str, str]]:
        found: dict[tuple[str, str, str], None] = {}
        pumps = list(dict.fromkeys(self._pumps(list(self._tree), "")))
        bodies = list(dict.fromkeys(body for _, body in pumps))
        for before, body in pumps:
            for after in ("", "\x00", "a", "\n!", before + "\x00"):
                found[before, body, after] = None
            # A start at each place; no match comes to an end.
            found["", before + body, ""] = None
            found["", before + body, "\x00"] = None
        for one in bodies:
            for two in bodies:
                found["", one + two, "\x00"] = None
        whole = self._example(list(self._tree))
        for cut in range(1, len(whole) + 1):
            found["", whole[:cut], "\x00"] = None
            found["", whole[:cut] + " ", ""] = None
        return [one for one in found if one[1]]

    def _pumps(self, items: list[Any], before: str) -> Iterator[tuple[str, str]]:
        """Yield the text before each repeat, and the repeated text."""
        for op, value in items:
            if op in _REPEATS:
                _, most, body = value
                yield from self._pumps(list(body), before)
                if most >= _UNLIMITED:
                    for text in self._bodies(list(body)):
                        yield before, text
            elif op is parser.SUBPATTERN:
                yield from self._pumps(list(value[3]), before)
            elif op is parser.ATOMIC_GROUP:
                yield from self._pumps(list(value), before)
            elif op is parser.BRANCH:
                for branch in value[1]:
                    yield from self._pumps(list(branch), before)
            elif op in (parser.ASSERT, parser.ASSERT_NOT):
                yield from self._pumps(list(value[1]), before)
            before += self._example([(op, value)])

    def _bodies(self, body: list[Any]) -> list[str]:
        """Return texts of a repeat: each character for one of characters, else an example."""
        if len(body) == 1 and body[0][0] in (parser.IN, parser.ANY, parser.NOT_LITERAL):
            return [char for char in self._letters if self._matches(body[0], char)]
        return [self._example(body)]

    def _matches(self, item: Any, char: str) -> bool:
        tree = parser.SubPattern(self._tree.state, [item])
        return compiler.compile(tree).fullmatch(char) is not None

    def _example(self, items: list[Any]) -> str:
        """Return a short text that items match, but for their assertions."""
        text = ""
        for op, value in items:
            if op is parser.LITERAL:
                text += chr(value)
            elif op in (parser.IN, parser.ANY, parser.NOT_LITERAL):
                letters = ["a", "0", *self._letters]
                text += next((one for one in letters if self._matches((op, value), one)), "")
            elif op in _REPEATS:
                least, most, body = value
                text += self._example(list(body)) * max(least, min(1, most))
            elif op is parser.SUBPATTERN:
                text += self._example(list(value[3]))
            elif op is parser.ATOMIC_GROUP:
                text += self._example(list(value))
            elif op is parser.BRANCH:
                text += self._example(list(value[1][0]))
        return text
