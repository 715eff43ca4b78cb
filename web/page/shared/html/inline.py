"""Markdown within a line: code, links, bold, italic and struck text, escaped characters.

The places at which each kind of span may end are found once for a line. So a line of marks that
open spans and never close them takes time in proportion to its length, too.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass

from page.shared.html.markup import Html, h

DEEPEST = 6  # lists, quotes and spans in each other

_SPECIAL = re.compile(r"`+|\[|https?://|[*_]|~~|\\")
_LINK = re.compile(r"\[([^\[\]]+)\]\((https?://[^\s()<>]+)\)")
_BARE = re.compile(r"(https?://)[^\s<>()\[\]\"'`*]+")
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|~>])")
_TICKS = re.compile(r"`+")


@dataclass(frozen=True)
class _Span:
    """Text between two marks; `opens` and `closes` match at the places where a mark may be."""

    tag: str
    mark: str
    opens: re.Pattern[str]
    closes: re.Pattern[str]


_SPANS = (
    _Span("strong", "**", re.compile(r"\*\*(?=\S)"), re.compile(r"(?<=\S)(?=\*\*)")),
    _Span("strong", "__", re.compile(r"__(?=\S)"), re.compile(r"(?<=\S)(?=__(?!\w))")),
    _Span("s", "~~", re.compile(r"~~(?=\S)"), re.compile(r"(?<=\S)(?=~~)")),
    _Span("em", "*", re.compile(r"\*(?=[^\s*])"), re.compile(r"(?<=[^\s*])(?=\*(?!\*))")),
    _Span("em", "_", re.compile(r"(?<!\w)_(?=[^\s_])"), re.compile(r"(?<=[^\s_])(?=_(?!\w))")),
)


def inline(text: str, depth: int = 0) -> list[object]:
    """Return the markup of one line."""
    return [text] if depth > DEEPEST else _InlineReader(text, depth).shown()


class _InlineReader:
    def __init__(self, text: str, depth: int) -> None:
        self._text, self._depth = text, depth
        self._closers: dict[int, list[int]] = {}  # of each kind of span
        self._ticks: dict[int, list[int]] | None = None  # starts of runs of ticks, by length

    def shown(self) -> list[object]:
        text, shown, done, at = self._text, list[object](), 0, 0
        while special := _SPECIAL.search(text, at):
            start = special.start()
            found = self._code(special) if special[0][0] == "`" else self._other(start)
            if found is None:
                at = special.end() if special[0][0] == "`" else start + 1
                continue
            span, at = found
            shown += [text[done:start], span]
            done = at
        return [*shown, text[done:]]

    def _code(self, ticks: re.Match[str]) -> tuple[object, int] | None:
        """Return code, which ends with as many ticks as it began with."""
        if self._ticks is None:
            self._ticks = {}
            for run in _TICKS.finditer(self._text):
                self._ticks.setdefault(len(run[0]), []).append(run.start())
        end = _first_from(self._ticks.get(len(ticks[0]), []), ticks.end())
        if end is None:
            return None
        code = self._text[ticks.end() : end]
        return h("code", code.strip() or code), end + len(ticks[0])

    def _other(self, at: int) -> tuple[object, int] | None:
        text = self._text
        if link := _LINK.match(text, at):
            return _link(link[2], inline(link[1], self._depth + 1)), link.end()
        if bare := _BARE.match(text, at):
            url = bare[0].rstrip(".,;:!?")
            if len(url) > len(bare[1]) + 1:
                return _link(url, url), at + len(url)
        if escaped := _ESCAPED.match(text, at):
            return escaped[1], escaped.end()
        for kind, span in enumerate(_SPANS):
            opened = span.opens.match(text, at)
            if opened is None:
                continue
            end = _first_from(self._closers_of(kind), opened.end() + 1)
            if end is not None:
                inner = inline(text[opened.end() : end], self._depth + 1)
                return h(span.tag, inner), end + len(span.mark)
        return None

    def _closers_of(self, kind: int) -> list[int]:
        if kind not in self._closers:
            found = _SPANS[kind].closes.finditer(self._text)
            self._closers[kind] = [one.start() for one in found]
        return self._closers[kind]


def _first_from(places: list[int], start: int) -> int | None:
    """Return the first of sorted places that is not before `start`."""
    at = bisect_left(places, start)
    return places[at] if at < len(places) else None


def _link(url: str, text: object) -> Html:
    return h("a", text, href=url, target="_blank", rel="noopener noreferrer nofollow")
