"""Texts with the words of a query marked, and the plain text of Markdown's headings."""

from __future__ import annotations

import re

from page.shared.html.markup import Html, h, render

_SHORTEST = 3  # letters of a word that is marked: shorter ones are in every text
_HEADING = re.compile(r"^#{1,6}[ \t]+", re.M)


def without_marks(text: str) -> str:
    """Return a text without the marks of Markdown's headings."""
    return _HEADING.sub("", text)


def marked_words(text: str, query: str) -> Html:
    """Return a text in which words that begin like a word of the query are marked."""
    words = {one for one in re.findall(r"\w+", query) if len(one) >= _SHORTEST}
    if not words:
        return render((text,))
    longest = sorted(map(re.escape, words), key=len, reverse=True)
    pattern = re.compile(rf"\b((?:{'|'.join(longest)})\w*)", re.I)
    parts = pattern.split(text)
    return render(h("mark", one) if at % 2 else one for at, one in enumerate(parts))
