"""Random regexes: an automaton accepts what `re.fullmatch` matches, and nothing else."""

from __future__ import annotations

import re

import numpy as np
import pytest

from support.harness import extent
from support.llm.automata import Sampler, accepts, of_regex
from webpte.errors import InputError
from webpte.llm.constrain.regex import LAST_OF_CASES, LAST_OF_CLASSES

LETTERS = "abAB19_-] .\n\t\u00a0\u0085\x1céÉßẞſsSK\u212akıIİi٣½\u1680\u2028あ🙂𝟘ςσΣ"
ATOMS = [
    *("a", "b", "B", "s", "K", "é", "ß", "σ", "I", "٣", "あ", "🙂", "1", "_", " ", "-", "\\.", "."),
    *(r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", "[]a]", "[^]a]", "[a-z]", "[^a-c]", "[A-Zé-ü]"),
    *(
        r"[^\s]",
        r"[\D]",
        r"[^\w-]",
        r"[\W\d]",
        r"[^\D1]",
        r"[\s\S]",
        "[あ-ん🙂-🙏]",
        r"[\ud7ff-\ue000]",
    ),
]
REPEATS = ["", "", "", "*", "+", "?", "{2}", "{1,2}", "{,2}", "{2,}", "*?", "{0}"]


def regex(rng: np.random.Generator, depth: int) -> str:
    """Return a random pattern without ^, $ and lookahead."""

    def one(options: list[str]) -> str:
        return options[rng.integers(len(options))]

    kind = rng.integers(6) if depth else 0
    if kind <= 1:
        return one(ATOMS) + one(REPEATS)
    inner = [regex(rng, depth - 1) for _ in range(rng.integers(1, 4))]
    if kind <= 3:
        return "".join(inner)
    group = one(
        ["(", "(?:", "(?P<n>" if depth == 1 else "(", "(?i:", "(?a:", "(?s:", "(?ia:", "(?-s:"]
    )
    return f"{group}{'|'.join(inner)}){one(REPEATS)}"


def whole(rng: np.random.Generator) -> str:
    """Return a random pattern that may have flags, lookahead, ^ and $."""
    pattern = regex(rng, 3)
    if rng.random() < 0.2:
        pattern = f"(?{'=' if rng.random() < 0.5 else '!'}{regex(rng, 2)}){pattern}"
        pattern = regex(rng, 1) + pattern if rng.random() < 0.5 else pattern
    if rng.random() < 0.2:
        pattern = f"^{pattern}$"
    return f"(?i){pattern}" if rng.random() < 0.2 else pattern


@pytest.mark.parametrize(
    "seed", extent.some([3], 1, 2)
)  # `re` takes minutes for a pattern of seed 0
def test_random_regexes_agree_with_re(seed: int) -> None:
    rng = np.random.default_rng(seed)
    compared = matched = 0
    refusals: list[str] = []
    for _ in range(60):
        pattern = whole(rng)
        try:
            compiled = re.compile(pattern)
        except re.error:  # two groups of one name
            continue
        try:
            automaton = of_regex(pattern)
        except InputError as error:
            refusals.append(str(error))
            continue
        sampler = Sampler(automaton) if len(automaton.table) < 600 else None
        for _ in range(12):
            letters = rng.choice(list(LETTERS), rng.integers(6))
            text = "".join(letters)
            if sampler is not None and rng.random() < 0.5:
                text = sampler.draw(rng, 8)
                if rng.random() < 0.5 and text:  # nearly a match
                    place = int(rng.integers(len(text)))
                    text = text[:place] + LETTERS[rng.integers(len(LETTERS))] + text[place + 1 :]
            matches = compiled.fullmatch(text) is not None
            assert accepts(automaton, text) is matches, (pattern, text)
            compared, matched = compared + 1, matched + matches
    known = "matches nothing|over 30,000 states|lookahead in a group"
    assert all(re.search(known, refusal) for refusal in refusals), refusals
    assert compared > 300
    assert matched > 80


def test_classes_end_where_they_are_taken_to() -> None:
    rest = "".join(map(chr, range(LAST_OF_CLASSES + 1, 0x110000)))
    assert re.search(r"[\w\s]", rest) is None
    rest = "".join(map(chr, range(LAST_OF_CASES + 1, 0x110000)))
    assert rest.upper() == rest == rest.lower()


@pytest.mark.parametrize(
    "pattern",
    extent.some([r"\w", r"(?i:[^ſ\d])"], r"\s", r"\D", "(?i:[k-sß])", "[]a]", "."),
)
def test_a_class_has_the_characters_that_it_has_in_re(pattern: str) -> None:
    """Return all characters up to where the rest are alike."""
    automaton = of_regex(pattern)
    for code in [*range(0xD800), *range(0xE000, 0x12000), *range(0x1D400, 0x1D900)]:
        assert accepts(automaton, chr(code)) is (re.fullmatch(pattern, chr(code)) is not None), code
