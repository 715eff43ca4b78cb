"""Passages: the parts of a document to embed, find and cite.

A passage is within a single section, and ends with a sentence if possible. It begins with the last
sentences of the passage before it, so that statements across an end are found, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from webpte.errors import InputError
from webpte.tasks.retrieval.documents import Document, Section

# The end of a sentence with the space after it, of a line of a list, of a heading, or of a
# paragraph.
_END = re.compile(
    r"(?<=[.!?\u2026])[\"'\u201d\u2019)\]]*\s+|(?<=[\u3002\uff01\uff1f])\s*"
    r"|\n\s*\n\s*|\n(?=[ \t]*(?:[-*+\u2022#>|]|\d+[.)]))"
)
_WORD = re.compile(r"\S+\s*|\s+")

_MOST_OF_ONE = 32  # longer tokens are not searched for the end of a sentence

Measure = Callable[[str], int]


@dataclass(frozen=True)
class PassagePlace:
    """The place of a passage: characters of its document, and its section's page and heading."""

    start: int
    end: int
    page: int | None = None
    heading: str = ""


@dataclass(frozen=True)
class _SentencePart:
    """A sentence, or a part of it: its characters, its length, and whether a paragraph ends."""

    start: int
    end: int
    length: int
    last: bool


def cut_document(
    document: Document, most: int = 800, overlap: int = 100, measure: Measure = len
) -> list[PassagePlace]:
    """Return the passages of a document with at least a letter or digit, in order.

    most     the length of a passage
    overlap  the largest overlap of neighbours
    measure  returns the length of a text: by default characters, for an encoder tokens
    """
    if most < 1 or not 0 <= overlap < most:
        raise InputError(f"passages of {most} with {overlap} in common: give fewer, from 0 on")
    return [
        PassagePlace(start, end, section.page, section.heading)
        for section in document.sections
        for start, end in _spans(document.text, section, most, overlap, measure)
    ]


def _spans(
    text: str, section: Section, most: int, overlap: int, measure: Measure
) -> Iterator[tuple[int, int]]:
    """Yield the passages of a section: as many pieces each as fit."""
    held: list[_SentencePart] = []
    for piece in _pieces(text, section, most, measure):
        length = sum(one.length for one in held)
        paragraph = bool(held) and held[-1].last and length >= most / 2
        if held and (length + piece.length > most or paragraph):
            yield from _span(text, held)
            held = [] if paragraph else _ending(held, min(overlap, most - piece.length))
        held.append(piece)
    if held:
        yield from _span(text, held)


def _span(text: str, held: list[_SentencePart]) -> Iterator[tuple[int, int]]:
    start, end = held[0].start, held[-1].end
    inside = text[start:end]
    start += len(inside) - len(inside.lstrip())
    end -= len(inside) - len(inside.rstrip())
    if any(character.isalnum() for character in inside):
        yield start, end


def _ending(held: list[_SentencePart], room: int) -> list[_SentencePart]:
    """Return the last pieces that fit into the room, but not all."""
    kept: list[_SentencePart] = []
    for piece in reversed(held[1:]):
        room -= piece.length
        if room < 0:
            break
        kept.insert(0, piece)
    return kept


def _pieces(text: str, section: Section, most: int, measure: Measure) -> Iterator[_SentencePart]:
    """Yield sentences; a long sentence is split at words, a long word anywhere."""
    start = section.start
    ends = [found.end() for found in _END.finditer(text, section.start, section.end)]
    for end in [*ends, section.end]:
        if end <= start:
            continue
        last = "\n\n" in text[max(start, end - 8) : end]
        length = measure(text[start:end].strip())
        if length <= most:
            yield _SentencePart(start, end, length, last)
        else:
            yield from _parts(text, start, end, most, measure)
        start = end


def _parts(text: str, start: int, end: int, most: int, measure: Measure) -> Iterator[_SentencePart]:
    """Yield parts of a long sentence, each with as many words as fit, or letters of a long word."""
    while start < end:
        fits = _end_of_part(text, start, end, most, measure)
        yield _SentencePart(start, fits, measure(text[start:fits].strip()), False)
        start = fits


def _end_of_part(text: str, start: int, end: int, most: int, measure: Measure) -> int:
    """Return the end of a part; the search goes farther only if all of the text before it fits.

    So the time does not grow with the text after the part.
    """
    room = 2 * most
    while True:
        near = min(end, start + room)
        words = [found.end() for found in _WORD.finditer(text, start, near)]
        cuts = words if measure(text[start : words[0]].strip()) <= most else _letters(start, words)
        fits = _last_fitting(text, start, cuts, most, measure)
        if fits < near or near == end or room == _MOST_OF_ONE * most:
            return fits
        room *= 2


def _letters(start: int, words: list[int]) -> list[int]:
    return list(range(start + 1, words[0] + 1))


def _last_fitting(text: str, start: int, cuts: list[int], most: int, measure: Measure) -> int:
    """Return the last cut up to which the text measures at most `most`, or else the first cut."""
    low, high = 0, 1
    while high < len(cuts) and measure(text[start : cuts[high]].strip()) <= most:
        low, high = high, 2 * high
    high = min(high, len(cuts))
    while high - low > 1:
        middle = (low + high) // 2
        if measure(text[start : cuts[middle]].strip()) <= most:
            low = middle
        else:
            high = middle
    return cuts[low]
