"""Docstrings that are read once: a function's begins with a verb, and nothing is a riddle.

Docstrings and comments also have no chains of pronouns: a sentence names the things that it is
about, and a value is never "what", "one" or "none".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

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

# Pronouns in place of nouns. Lower case: None and the starts of sentences are fine.
CHAINS = (
    r"\b(what|whatever|whichever) (is|was|it|its|they|are|were|has|had|this|that|the|an?)\b",
    r"\b(what|whatever) (can|may|must|does|makes|comes|follows|takes|needs|gives|lies)\b",
    r"\bwho(ever)? (is|has|wants|takes|gives|needs)\b",
    r"\b(that|those) (of|beside|besides|around|before|after|outside|inside)\b(?= \w)",
    r"\bthose (that|which|who|with|without|from|in)\b",
    r"(?<!there )\b(is|are|was|were|has|have) none\b",
    r"\bnone (for|of)\b",
    r"\b(the|this|that) one\b(?! [a-z]+ (of|in)\b)",
    r"\bone (that|which|who|is)\b|\bone of (it|its|them|these|those)(?=[.;,:)]|$)",
    r"\b(is|was|as|than|becomes) one(?=[.;,:)]| and | or |$)",
    r"\b(the|new|last|first|other|such|without|smaller|larger|special|same|by) ones\b",
    r"\bas (it|they) (is|are|was|were)(?=[.;,:)]|$)",
    r"\btold by\b|\btells? (of|what|which|whether|how)\b",
    r"\bof (its|their) own(?=[.;,:)]|$)",
)
CHAIN = re.compile("|".join(CHAINS))
# Strings are found, too, because a # in a string is no comment. `tokenize` takes 15 times as long.
STRINGS_AND_COMMENTS = re.compile(
    r"""(?:(\"{3}|'{3})(?:\\.|(?!\1).)*\1|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<comment>\#[^\n]*)""",
    re.DOTALL,
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Docstring(NamedTuple):
    """A docstring; `acts` says that it describes a function, and not a thing."""

    line: int
    text: str
    acts: bool


class Texts(NamedTuple):
    """The docstrings and comments of a file."""

    name: str
    docstrings: list[Docstring]
    comments: list[tuple[int, str]]


@cache
def files(folder: str) -> list[Texts]:
    """Read the files of a folder, once for all rules."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    codes = ((path, path.read_text(encoding="utf-8")) for path in paths)
    return [
        Texts(path.relative_to(ROOT).as_posix(), list(docstrings(code)), list(comments(code)))
        for path, code in codes
    ]


def docstrings(code: str) -> Iterator[Docstring]:
    """Yield the docstrings of a file."""
    found: list[ast.AST] = [ast.parse(code)]
    while found:
        node = found.pop()
        if isinstance(node, ast.Module | ast.ClassDef | Function) and (
            text := ast.get_docstring(node)
        ):
            acts = isinstance(node, Function) and not _is_noun(node)
            yield Docstring(getattr(node, "lineno", 1), text, acts)
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):  # not in expressions
            inner = getattr(node, part, None)
            found += inner if isinstance(inner, list) else ()


def _is_noun(node: Function) -> bool:
    """Tell whether a function stands for a thing: a property, a fixture, a context."""
    names = {
        ast.unparse(decorator).split("(")[0].split(".")[-1] for decorator in node.decorator_list
    }
    return bool(names & NOUN_DECORATORS)


def comments(code: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a file with their lines; adjacent lines are a single comment."""
    block: list[str] = []
    at, line, begin, below = 0, 1, 1, (0, 0)
    for found in (found for found in STRINGS_AND_COMMENTS.finditer(code) if found["comment"]):
        line, at = line + code.count("\n", at, found.start()), found.start()
        column = at - code.rfind("\n", 0, at)
        if (line, column) != below and block:
            yield begin, " ".join(block)
            block = []
        begin = begin if block else line
        below = line + 1, column
        block.append(found["comment"].lstrip("# "))
    if block:
        yield begin, " ".join(block)


def problem_of(docstring: Docstring, is_test: bool) -> str | None:
    """Name the fault of a docstring, or return None."""
    if RIDDLE.match(docstring.text):
        return "begins with a riddle"
    if docstring.acts and not is_test and NO_VERB.match(docstring.text):
        return "does not begin with a verb"
    return None


def chain_in(text: str) -> str | None:
    """Return the first pronoun chain in a text, or None."""
    found = CHAIN.search(re.sub(r"\s*\n\s*", " ", text))
    return found and found.group()


def problems_in(file: Texts) -> list[str]:
    """List the docstrings of a file that need a second reading, each with its line."""
    is_test = file.name.startswith("tests/")
    return [
        f"{file.name}:{docstring.line}: {problem}: {docstring.text.splitlines()[0]}"
        for docstring in file.docstrings
        if (problem := problem_of(docstring, is_test))
    ]


def chains_in(file: Texts) -> list[str]:
    """List the pronoun chains in a file, each with its line."""
    texts = [(line, text) for line, text, _ in file.docstrings] + file.comments
    return [
        f"{file.name}:{line}: {chain!r} in: {text.splitlines()[0]}"
        for line, text in sorted(texts)
        if (chain := chain_in(text))
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_are_read_once(folder: str) -> None:
    assert files(folder), f"{folder} is gone: take it from the list"
    found = [line for file in files(folder) for line in problems_in(file)]
    assert not found, f"{len(found)} docstrings to write anew:\n" + "\n".join(found)


@pytest.mark.parametrize("folder", FOLDERS)
def test_pronouns_have_nouns(folder: str) -> None:
    found = [line for file in files(folder) for line in chains_in(file)]
    assert not found, f"{len(found)} sentences to write with nouns:\n" + "\n".join(found)


def test_comments_are_found_outside_of_strings() -> None:
    code = r"""a = "# no" + f'{b!r} # no'  # a comment
# two \" lines
# of 'another'
c = r"\"# no"  # the "end"
'''# no "
# no
'''
d = "\\"  # '
"""
    assert list(comments(code)) == [
        (1, "a comment"),
        (2, "two \\\" lines of 'another'"),
        (4, 'the "end"'),
        (8, "'"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Return what is left of a text.", "what is"),
        ("Return the text of a result; None if it is none.", "is none"),
        ("One that is one.", "is one"),
        ("Sizes are those of the input.", "those of"),
        ("Keep the others, and take the one before.", "the one"),
        ("Return the buffers\nas they are.", "as they are"),
        ("Files in a folder of their own.", "of their own"),
        ("The number of steps, told by measured times.", "told by"),
        ("Return the text of a result, or None if the result is not a text.", None),
        ("Return the size of each of these shapes; raise if one of these shapes is empty.", None),
    ],
)
def test_the_rule_of_pronouns(text: str, expected: str | None) -> None:
    assert chain_in(text) == expected


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
    (docstring,) = docstrings(code)
    assert problem_of(docstring, is_test=False) == expected
