"""Shortens the WGSL of a kernel: no comments, no declarations that its entry point cannot use."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NAMED = re.compile(r"\b(?:fn|struct|alias|const|override|var(?:<[\w, ]*>)?) (\w+)")
_WORD = re.compile(r"\w+")
_DELIMITER = re.compile(r"[{};]")


def trim(code: str) -> str:
    """Return WGSL with the same meaning.

    Bindings and overrides stay, used or not: the layout of a pipeline names them.
    """
    declarations = list(_declarations(_without_comments(code)))
    named = {name: text for name, text in declarations if name}
    wanted = [text for name, text in declarations if _stays(name, text)]
    used = set[str]()
    while wanted:
        words = set(_WORD.findall(wanted.pop())) & named.keys() - used
        used |= words
        wanted += [named[word] for word in words]
    kept = [text for name, text in declarations if name in used or _stays(name, text)]
    lines = (line.rstrip() for line in "".join(kept).splitlines())
    return "".join(f"{line}\n" for line in lines if line)


def _without_comments(code: str) -> str:
    """Remove line comments, the only kind in kernels."""
    return "".join(f"{line.partition('//')[0]}\n" for line in code.splitlines())


def _stays(name: str, text: str) -> bool:
    return not name or name == "main" or "@binding" in text or text.lstrip().startswith("override")


def _declarations(code: str) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each declaration of a module; directives have no name."""
    start = depth = 0
    for found in _DELIMITER.finditer(code):
        depth += {"{": 1, "}": -1, ";": 0}[found[0]]
        if depth == 0:
            text = code[start : found.end()]
            start = found.end()
            name = _NAMED.search(text)
            yield name[1] if name else "", text
    if code[start:].strip():
        yield "", code[start:]
