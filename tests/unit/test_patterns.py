"""No regular expression, and no function that reads foreign text, takes more than linear time.

Times are compared as ratios: eight times the text may take up to twenty times as long. Square
growth takes 64 times, but less where each match costs much: a ratio that is not clearly linear is
measured at longer texts. One that is too large is measured again, by the best of several runs; the
short text, whose time a single pause would multiply, always is.
"""

from __future__ import annotations

import ast
import asyncio
import gc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import process_time

import pytest

from page.shared.html.markdown import has_markup, markdown
from page.shared.html.markup import render
from page.shared.inputs.typed import TypedError, parse_values
from support.harness.reading import run as run_coroutine
from support.regex.patterns import HardStrings, Pattern, find_patterns, run
from support.write.pdf_writer import write_pdf
from webpte.engine.files.arrays import read_npy
from webpte.engine.files.json_reader import parse_table
from webpte.engine.files.manifest import read_manifest
from webpte.engine.open import hub_name
from webpte.errors import WebpteError
from webpte.llm.text import ChatTemplate, load_tokenizer
from webpte.tasks.retrieval import read_document
from webpte.tasks.retrieval.documents import Document
from webpte.tasks.retrieval.passages import cut_document
from webpte_host.commands import near

ROOT = Path(__file__).parent.parent.parent
# Patterns that are made of values, each with examples that it may be.
MADE = {
    "_written(items)": (),  # of an answer's grammar; only literals and classes come before it
    "f'\\\\{letter}+'": (r"\d+",),
    "'|'.join(map(re.escape, pictures))": (r"<image>|<img>",),
    "f'({kept})'": (r"([^abc])",),
    "'|'.join(sorted(added, key=len, reverse=True)) or '(?!)'": (r"<end>|<e>",),
    "pattern": tuple(path for path, _ in near.RULES),  # of paths in a checkout
    "f'^deb (?:\\\\[(.*)\\\\] )?(\\\\S+) {codename} '": (r"^deb (?:\[(.*)\] )?(\S+) sid ",),
    "f'hf:({_PART})/({_PART})((?:/[^/@]+)*)/?(?:@([^@]+))?'": (hub_name._NAME.pattern,),
    "f'/({_PART})/({_PART})(?:/(?:resolve|blob|raw|tree)/([^/]+)((?:/[^/]+)*))?/?'": (
        hub_name._PLACE.pattern,
    ),
    "f'{re.escape(case.id)}(_\\\\d+)?\\\\.\\\\d+\\\\.[a-z]+\\\\d+\\\\.bin'": (
        r"add(_\d+)?\.\d+\.[a-z]+\d+\.bin",
    ),
    "f\"\\\\b((?:{'|'.join(longest)})\\\\w*)\"": (
        r"\b((?:quick|fox)\w*)",
    ),  # of the words of a question
}
MADE = {ast.unparse(ast.parse(key)): examples for key, examples in MADE.items()}  # of this Python
SHORT, LONG = 128, 1024  # characters
Hard = tuple[str, str, str]  # a text: before, repeated, after
MOST_GROWTH = 20  # of the time from SHORT to LONG; 8 is linear, 64 is square
CLEARLY_LINEAR = 12


def source_patterns() -> list[Pattern]:
    files = sorted([*(ROOT / "pysrc").rglob("*.py"), *(ROOT / "web").rglob("*.py")])
    return [pattern for file in files for pattern in find_patterns(file, ROOT)]


def repeated(hard: Hard, length: int) -> str:
    before, body, after = hard
    return before + body * (length // len(body) + 1) + after


def seconds(work: Callable[[str], object], text: str, times: int) -> float:
    """Return the least processor time of several runs; like `timeit`, it collects no garbage."""
    best = float("inf")
    gc.disable()
    try:
        for _ in range(times):
            began = process_time()
            work(text)
            best = min(best, process_time() - began)
    finally:
        gc.enable()
    return best


def growth(
    work: Callable[[str], object], hard: Hard, short: int = SHORT, long: int = LONG
) -> float:
    """Return how much longer LONG characters take than SHORT, or 20 than 10 if that is too much."""
    for lengths in ((10, 20), (short, long)):
        ratio = least_ratio(work, hard, lengths)
        if ratio > MOST_GROWTH:
            break
    return ratio


def least_ratio(
    work: Callable[[str], object], hard: Hard, lengths: tuple[int, int], enough: float = MOST_GROWTH
) -> float:
    """Return how much longer the second length takes; well measured if more than enough."""
    less, more = (repeated(hard, length) for length in lengths)
    for times in (1, 5, 25):
        ratio = seconds(work, more, times) / max(seconds(work, less, times + 4), 1e-7)
        if ratio <= enough:
            break
    return ratio


def slow_text(pattern: Pattern) -> str | None:
    assert pattern.text is not None
    strings = HardStrings(pattern.text, pattern.flags).all()
    for method, compiled in pattern.runs():
        for hard in strings:

            def work(text: str) -> None:
                run(compiled, method, text)  # noqa: B023

            ratio = growth(work, hard)
            if CLEARLY_LINEAR < ratio <= MOST_GROWTH:
                ratio = least_ratio(work, hard, (LONG, 8 * LONG))
            if ratio > MOST_GROWTH:
                text = repeated(hard, 24)
                return f"{pattern.place}: {pattern.text!r}, {method}: {text!r} x{ratio:.0f}"
    return None


def test_no_pattern_takes_more_than_linear_time() -> None:
    slow = []
    for pattern in source_patterns():
        for text in MADE[pattern.written] if pattern.text is None else (pattern.text,):
            given = Pattern(pattern.place, text, text, pattern.flags, pattern.methods)
            slow.append(slow_text(given))
    assert len(slow) > 80
    assert [found for found in slow if found] == []


@pytest.mark.parametrize(
    "text",
    [
        r"#{1,6}\s+(.*?)\s*#*\s*$",
        r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$",
        r"^alias (\w+) = ([^;]+);",
        r"%(?:\([^)]*\))?\d*",
    ],
)
def test_slow_patterns_are_found(text: str) -> None:
    method = "match" if text.endswith("$") else "findall"
    assert slow_text(Pattern("here", text, text, 8, (method,))) is not None


# Texts that were slow, or are near to ones: (before, repeated, after).
HARD = (
    ("# a", " ", "x"), ("# a", " #", "x"), ("- ", "- ", "x"), ("a|b\n-", " ", "-"),
    ("a|b\n", " | ", "x"), ("a|b\n|", "-|", "x"), ("|", "|", "\n|-|"), ("~~~", "~", "`"),
    ("~~~", " a", "`"), ("", "`", "a"), ("", "**a ", ""), ("", "_a", ""), ("", "[a](", ""),
    ("", "[", ""), ("", "https://,", ""), ("", "*", "a"), ("", "\\", ""), ("", "> ", "a"),
    ("", "- ", "a"), ("a|b\n-|-\n", "|\n", ""), ("", "- a\n\n", ""), ("", "~~~\n", ""),
    ("", "a. ", ""), ("", ".\"", ""), ("", "\n ", "a"), ("", "a", ""), ("", "%(", ""),
    ("", "<", ""), ("", "\u3042", ""), ("[", "[1,", ""), ("", "1,", ""), ('{"a": ', "[", ""),
    ('"', "\\", ""),
)  # fmt: skip


def refused(work: Callable[[], object]) -> None:
    with suppress(WebpteError, TypedError):
        work()


def readers() -> dict[str, Callable[[str], object]]:
    tokenizer = run_coroutine(
        load_tokenizer((ROOT / "tests/data/text/words/tokenizer.json").as_posix())
    )
    source = "{% for m in messages %}{{ m.content | trim | replace('<', '') }}{% endfor %}"
    template = run_coroutine(ChatTemplate.load(source))
    header = b"\x93NUMPY\x01\x00"

    def document(text: str) -> None:
        cut_document(Document.of_markdown(text, "a.md"))

    return {
        "markdown": lambda text: render([*markdown(text), has_markup(text)]),
        "documents": document,
        "lines": lambda text: document(text.replace(" ", "\n")),
        "pdf": lambda text: asyncio.run(
            read_document(write_pdf([[text.replace("\u3042", "a")]]), "a.pdf")
        ),
        "tokenizer": lambda text: tokenizer.decode(tokenizer.encode(text)),
        "template": lambda text: template.render([{"role": "user", "content": text}]),
        "values": lambda text: parse_values(text, dtype="int32", dims=(1,), bounds=((1, 1 << 20),)),
        "card": lambda text: parse_table(text, "card", WebpteError),
        "manifest": lambda text: read_manifest(text, "manifest"),
        "npy": lambda text: read_npy(
            header + len(text.encode()).to_bytes(2, "little") + text.encode(), "a.npy"
        ),
    }


@pytest.mark.parametrize("name", sorted(readers()))
def test_no_reader_takes_more_than_linear_time(name: str) -> None:
    read, slow = readers()[name], []
    for hard in HARD:
        ratio = growth(lambda text: refused(lambda: read(text)), hard, 1000, 8000)
        if ratio > MOST_GROWTH:
            slow.append((*hard, ratio))
    assert slow == []
