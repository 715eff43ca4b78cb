"""Markdown of answers as markup: the part of it that language models write.

Headings, paragraphs, lists, quotes, tables, rules, code blocks; in a line bold, italic, struck and
code, and links. HTML in the text is text. Everything passes through `h`, which escapes it, and
links lead to http and https only, so no answer can change the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from page.shared.html.inline import DEEPEST, inline
from page.shared.html.markup import Html, h

# No two repeats of a pattern meet that take the same characters: time grows as the text does.
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LANGUAGE = re.compile(r"[\w+#.-]*")
_HEADING = re.compile(r" {0,3}(#{1,6})\s")
_RULE = re.compile(r" {0,3}([-*_])")
_ITEM = re.compile(r"(\s*+)([-*+]|\d{1,9}[.)])\s++")
_QUOTE = re.compile(r" {0,3}>\s?")
_CELLS = re.compile(r"(?<!\\)\|")
_DIVIDER_CELL = re.compile(r":?-+:?")
_LONGEST_LINE = 4000  # characters; a longer line is no prose, and is shown unchanged
_MOST_COLUMNS = 100  # of a table: each row is filled up to them
CopyButton = Callable[[int], Html]  # the number of a code block -> its button


@dataclass(frozen=True)
class CodeBlock:
    language: str
    text: str


def markdown(text: str, copy: CopyButton | None = None) -> list[Html]:
    """Return the markup of a text; `copy` makes the button of a code block."""
    return _Blocks(copy).of(text.split("\n"), 0)


def has_markup(text: str) -> bool:
    """Tell whether a text has anything that is not shown unchanged; paragraphs do not count."""
    lines = [line for line in text.split("\n") if len(line) <= _LONGEST_LINE]
    return any(_begins(line) or _is_divider(line) or len(inline(line)) > 1 for line in lines)


def code_blocks(text: str) -> list[CodeBlock]:
    """Return the code blocks of a text, as `markdown` numbers them."""
    reader = _Blocks(None)
    reader.of(text.split("\n"), 0)
    return reader.codes


class _Blocks:
    """Reads blocks line by line."""

    def __init__(self, copy: CopyButton | None) -> None:
        self._copy = copy
        self.codes: list[CodeBlock] = []

    def of(self, lines: Sequence[str], depth: int) -> list[Html]:
        shown: list[Html] = []
        at = 0
        while at < len(lines):
            block, at = self._block(lines, at, depth)
            if block is not None:
                shown.append(block)
        return shown

    def _block(self, lines: Sequence[str], at: int, depth: int) -> tuple[Html | None, int]:
        line = lines[at]
        if not line.strip():
            return None, at + 1
        if len(line) > _LONGEST_LINE:
            return h("p", line), at + 1
        if fence := _fence(line):
            return self._code(lines, at, fence)
        if heading := _HEADING.match(line):
            # The page has its own first three levels.
            level = min(6, len(heading[1]) + 3)
            title = line[heading.end() :].strip().rstrip("#").rstrip()
            return h(f"h{level}", inline(title)), at + 1
        if _is_rule(line):
            return h("hr"), at + 1
        if depth < DEEPEST and _QUOTE.match(line):
            return self._quote(lines, at, depth)
        if depth < DEEPEST and _ITEM.match(line):
            return self._list(lines, at, depth)
        columns = 1 + line.count("|")
        if 1 < columns <= _MOST_COLUMNS and at + 1 < len(lines) and _is_divider(lines[at + 1]):
            return self._table(lines, at)
        return self._paragraph(lines, at)

    def _paragraph(self, lines: Sequence[str], at: int) -> tuple[Html, int]:
        start = at
        at += 1
        while at < len(lines) and lines[at].strip() and not _begins(lines[at]):
            at += 1
        shown: list[object] = []
        for line in lines[start:at]:
            shown += [h("br")] if shown else []
            shown.append(line if len(line) > _LONGEST_LINE else inline(line.strip()))
        return h("p", shown), at

    def _code(self, lines: Sequence[str], at: int, fence: tuple[str, str]) -> tuple[Html, int]:
        """Return a code block; an unclosed block ends with the text."""
        (mark, language), start = fence, at + 1
        at = start
        while at < len(lines) and not (
            lines[at].strip().startswith(mark) and not lines[at].strip().strip(mark[0])
        ):
            at += 1
        code = CodeBlock(language, "\n".join(lines[start:at]))
        self.codes.append(code)
        button = self._copy(len(self.codes) - 1) if self._copy is not None else None
        head = h("figcaption", h("span", code.language or "code"), button)
        body = h("pre", h("code", code.text), tabindex="0")
        return h("figure", head, body, class_="code-block"), at + 1

    def _quote(self, lines: Sequence[str], at: int, depth: int) -> tuple[Html, int]:
        inner = []
        while at < len(lines) and (quoted := _QUOTE.match(lines[at])):
            inner.append(lines[at][quoted.end() :])
            at += 1
        return h("blockquote", self.of(inner, depth + 1)), at

    def _list(self, lines: Sequence[str], at: int, depth: int) -> tuple[Html, int]:
        """Return a list; lines indented further than the marks are part of an item."""
        first = _ITEM.match(lines[at])
        assert first is not None
        indent, ordered = len(first[1]), first[2][0].isdigit()
        items: list[list[str]] = []
        while at < len(lines):
            line = lines[at]
            item = _ITEM.match(line)
            if item and len(item[1]) <= indent + 1:
                if item[2][0].isdigit() != ordered or len(item[1]) < indent:
                    break
                items.append([line[item.end() :]])
            elif not line.strip():
                following = lines[at + 1] if at + 1 < len(lines) else ""
                if not (_indent(following) > indent or _ITEM.match(following)):
                    break
                items[-1].append("")
            elif _indent(line) > indent or not _begins(line):
                items[-1].append(line[min(_indent(line), indent + 2) :])
            else:
                break
            at += 1
        shown = [h("li", self._item(item, depth)) for item in items]
        number = int(first[2][:-1]) if ordered else 1
        start = number if ordered and number != 1 else None
        return h("ol" if ordered else "ul", shown, start=start), at

    def _item(self, lines: list[str], depth: int) -> list[object]:
        """Return the content of an item; text at its beginning is not a separate paragraph."""
        if len(lines) == 1:
            return [inline(lines[0])]
        blocks = self.of(lines, depth + 1)
        return [*blocks]

    def _table(self, lines: Sequence[str], at: int) -> tuple[Html, int]:
        head = _cells(lines[at])
        at += 2
        rows = []
        while at < len(lines) and "|" in lines[at] and lines[at].strip():
            rows.append([*_cells(lines[at]), *[""] * len(head)][: len(head)])
            at += 1
        heads = h("tr", [h("th", inline(cell), scope="col") for cell in head])
        body = [h("tr", [h("td", inline(cell)) for cell in row]) for row in rows]
        table = h("table", h("thead", heads), h("tbody", body))
        shown = h("figure", table, class_="markdown-table", tabindex="0", aria_label="Table")
        return shown, at


def _begins(line: str) -> bool:
    """Tell whether a line begins another block than a paragraph."""
    known = _HEADING.match(line) or _QUOTE.match(line) or _ITEM.match(line)
    return known is not None or _is_rule(line) or _fence(line) is not None


def _fence(line: str) -> tuple[str, str] | None:
    """Return the mark and the language of a line that begins a code block."""
    found = _FENCE.match(line)
    if found is None or "`" in line[found.end() :]:
        return None
    language = _LANGUAGE.match(line[found.end() :].lstrip())
    return found[1], language[0] if language else ""


def _is_rule(line: str) -> bool:
    found, marks = _RULE.match(line), "".join(line.split())
    return found is not None and len(marks) >= 3 and not marks.strip(found[1])


def _is_divider(line: str) -> bool:
    if len(line) > _LONGEST_LINE or "-" not in line:
        return False
    cells = line.strip().removeprefix("|").removesuffix("|").split("|")
    return all(_DIVIDER_CELL.fullmatch(cell.strip()) for cell in cells)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in _CELLS.split(line.strip().strip("|"))]
