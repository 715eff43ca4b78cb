"""Docstrings that are read once: a function's begins with a verb, and nothing is a riddle.

In the folders PLAIN, docstrings and comments also have no chains of pronouns: a sentence names the
things that it is about, and a value is never "what", "one" or "none".
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
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

# Pronouns in place of nouns. Lower case: None and the starts of sentences are fine.
CHAINS = [
    re.compile(pattern)
    for pattern in (
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
]
# Folders whose docstrings and comments keep this rule; add a folder when it does.
PLAIN = (
    "pysrc/webpte",
    "pysrc/webpte_export",
    "pysrc/webpte_host",
    "pysrc/webpte_serve",
    "web",
    "tests/browser",
    "tests/cluster",
    "tests/firefox",
    "tests/native",
    "tests/support",
    "tests/unit",
)

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
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):  # not in expressions
            inner = getattr(node, part, None)
            found += inner if isinstance(inner, list) else ()


def problem_of(node: ast.AST, text: str, is_test: bool) -> str | None:
    """Name the fault of a docstring, or return None."""
    if RIDDLE.match(text):
        return "begins with a riddle"
    if isinstance(node, Function) and not is_test and NO_VERB.match(text) and not _is_noun(node):
        return "does not begin with a verb"
    return None


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the comments of a file with their lines; adjacent lines are a single comment."""
    block: list[tokenize.TokenInfo] = []
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    for token in (token for token in tokens if token.type == tokenize.COMMENT):
        if block and token.start != (block[-1].start[0] + 1, block[-1].start[1]):
            yield block[0].start[0], " ".join(line.string.lstrip("# ") for line in block)
            block = []
        block.append(token)
    if block:
        yield block[0].start[0], " ".join(line.string.lstrip("# ") for line in block)


def chain_in(text: str) -> str | None:
    """Return the first pronoun chain in a text, or None."""
    found = (pattern.search(re.sub(r"\s*\n\s*", " ", text)) for pattern in CHAINS)
    return next((match.group() for match in found if match), None)


def chains_in(path: Path) -> list[str]:
    """List the pronoun chains in a file, each with its line."""
    texts = [(line, text) for _, line, text in documented(path)] + list(comments(path))
    return [
        f"{path.relative_to(ROOT)}:{line}: {chain!r} in: {text.splitlines()[0]}"
        for line, text in sorted(texts)
        if (chain := chain_in(text))
    ]


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


@pytest.mark.parametrize("folder", PLAIN)
def test_pronouns_have_nouns(folder: str) -> None:
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths, f"{folder} is gone: take it from the list"
    found = [line for path in paths for line in chains_in(path)]
    assert not found, f"{len(found)} sentences to write with nouns:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Return what is left of a text.", "what is"),
        ("Return the text of a result that is one; None if it is none.", "is none"),
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
    (node,) = ast.parse(code).body
    assert isinstance(node, Function | ast.ClassDef)
    assert problem_of(node, ast.get_docstring(node) or "", is_test=False) == expected
