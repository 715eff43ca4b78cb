"""Documents: the text of a file, and its sections, which are pages or the text under headings.

Names and lengths are limited, because files are untrusted: see reading.py.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from webpte.errors import DocumentError

MOST_CHARACTERS = 32_000_000  # limit per document
MOST_NAME = 1000
PAGE_BREAK = "\f"  # between the pages of a document

_HEADING = re.compile(r"(#{1,6})[ \t]")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


@dataclass(frozen=True)
class Section:
    """A part of a document: characters from `start` to `end`.

    page      its number, from 1; None if the document has no pages
    heading   its headings, outermost first: "Guide > Install"; "" without headings
    """

    start: int
    end: int
    page: int | None = None
    heading: str = ""


@dataclass(frozen=True)
class Document:
    """A named text and its sections, which are in order and do not overlap."""

    name: str
    text: str
    sections: tuple[Section, ...]

    @classmethod
    def of_text(cls, text: str, name: str) -> Document:
        """Make a document of plain text, with a single section."""
        _check(text, name)
        return cls(name, text, (Section(0, len(text)),))

    @classmethod
    def of_markdown(cls, text: str, name: str) -> Document:
        """Make a document of Markdown: a section for each heading, with the text under it."""
        _check(text, name)
        return cls(name, text, tuple(_headed_sections(text)))

    @classmethod
    def of_pages(cls, pages: list[str], name: str) -> Document:
        """Make a document of pages: a section for each."""
        text = PAGE_BREAK.join(page.replace(PAGE_BREAK, "\n") for page in pages)
        _check(text, name)
        sections, start = [], 0
        for number, page in enumerate(pages, 1):
            sections.append(Section(start, start + len(page), number))
            start += len(page) + len(PAGE_BREAK)
        return cls(name, text, tuple(sections))

    def section_number(self, place: int) -> int:
        """Return the index of the section that has a character, or of the section before it."""
        return max(0, bisect_right(self._starts, place) - 1)

    @cached_property
    def _starts(self) -> list[int]:
        return [section.start for section in self.sections]


def _check(text: str, name: str) -> None:
    if not name or len(name) > MOST_NAME:
        raise DocumentError(f"a document needs a name of 1 to {MOST_NAME} characters")
    if len(text) > MOST_CHARACTERS:
        raise DocumentError(
            f"{name} has {len(text):,} characters; a document has at most {MOST_CHARACTERS:,}: "
            "split it"
        )


def _headed_sections(text: str) -> Iterator[Section]:
    """Yield the text before the first heading, then each heading with the text under it."""
    path: list[tuple[int, str]] = []  # levels and texts of the headings around a place
    start, place, fence = 0, 0, ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if mark is not None:
            if not fence:
                fence = mark[1]
            elif mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
        heading = None if fence else _HEADING.match(line)
        if heading is not None:
            if place > start:
                yield Section(start, place, heading=_joined(path))
            level = len(heading[1])
            title = line[heading.end() :].strip().rstrip("#").rstrip()
            path = [one for one in path if one[0] < level] + [(level, title)]
            start = place
        place += len(line)
    yield Section(start, place, heading=_joined(path))


def _joined(path: list[tuple[int, str]]) -> str:
    return " > ".join(text for _, text in path if text)
