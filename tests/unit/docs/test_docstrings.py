"""Docstrings that are read once: a function's begins with a verb, and none begins with a riddle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from webpte_host.base.layout import ROOT

# A docstring that begins so goes on from the name, and is a riddle without it.
RIDDLE = re.compile(
    r"(What|Whatever|Who|Whoever|Which|That|Those|Such|Where|How|So|Of|As|With|The same)\b"
)
# Nouns, pronouns and places: fine for a class or a property, but a function does something.
NO_VERB = re.compile(
    r"(The|A|An|Its|It|Their|They|One|Each|All|Every|Some|Any|No|Not|None|Nothing|In|On|By|For|From"
    r"|To|At|Until|Up|Both|Two|Three|Only|Also|Another|Other|Others|More|Whether|If|Bytes|Indices)\b"
)
NOUN_DECORATORS = {
    "property",
    "cached_property",
    "fixture",
    "contextmanager",
    "asynccontextmanager",
}
FOLDERS = ("pysrc", "web", "tests")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def documented(path: Path) -> Iterator[tuple[ast.AST, int, str]]:
    """Yield the nodes of a file that have docstrings, with line and text."""
    found: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while found:
        node = found.pop()
        if isinstance(node, ast.Module | ast.ClassDef | Function) and (
            text := ast.get_docstring(node)
        ):
            yield node, getattr(node, "lineno", 1), text
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):  # expressions have none
            inner = getattr(node, part, None)
            found += inner if isinstance(inner, list) else ()


def problem_of(node: ast.AST, text: str, is_test: bool) -> str | None:
    """Say what is wrong with a docstring, if anything is."""
    if RIDDLE.match(text):
        return "begins with a riddle"
    if isinstance(node, Function) and not is_test and NO_VERB.match(text) and not _is_noun(node):
        return "does not begin with a verb"
    return None


def _is_noun(node: Function) -> bool:
    """Tell whether a function stands for a thing: a property, a fixture, a context."""
    names = {
        ast.unparse(decorator).split("(")[0].split(".")[-1] for decorator in node.decorator_list
    }
    return bool(names & NOUN_DECORATORS)


def problems_in(path: Path) -> list[str]:
    """List the docstrings of a file that need a second reading, each with its line."""
    is_test = path.is_relative_to(ROOT / "tests")
    found = [
        (line, problem_of(node, text, is_test), text.splitlines()[0])
        for node, line, text in documented(path)
    ]
    return [
        f"{path.relative_to(ROOT)}:{line}: {what}: {text}" for line, what, text in found if what
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_are_read_once(folder: str) -> None:
    found = [line for path in sorted((ROOT / folder).rglob("*.py")) for line in problems_in(path)]
    assert not found, f"{len(found)} docstrings to write anew:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('def f():\n    """What it gives."""', "begins with a riddle"),
        ('def f():\n    """The sum of both."""', "does not begin with a verb"),
        ('def f():\n    """Return the sum of both."""', None),
        ('@property\ndef f(self):\n    """The sum of both."""', None),
        ('class Sum:\n    """The sum of both."""', None),
        ('class Sum:\n    """Of both."""', "begins with a riddle"),
    ],
)
def test_the_rule_itself(code: str, expected: str | None) -> None:
    (node,) = ast.parse(code).body
    assert isinstance(node, Function | ast.ClassDef)
    assert problem_of(node, ast.get_docstring(node) or "", is_test=False) == expected
