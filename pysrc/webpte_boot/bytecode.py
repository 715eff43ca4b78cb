"""Compiled modules from the last visit: importing takes about half as long without compiling.

Files and their times are new at every visit, so Python cannot reuse its own cache. Modules are kept
by the hash of their source, which Python checks: a module that has changed is compiled. The code
that dataclasses generate for each class, nearly half of the time of an import, is kept by its text.
"""

from __future__ import annotations

import dataclasses
import marshal
import sys
from collections.abc import Iterable, Mapping
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path
from types import CodeType

_BY_CHECKED_HASH = (0b11).to_bytes(4, "little")  # how a .pyc says what it goes by; see PEP 552
_HEAD = 16  # bytes before the code: magic number, flags, and what it goes by


def compiled_modules(modules: Iterable[object]) -> dict[str, bytes]:
    """Return the .pyc files, by path, that Python wrote when it imported these modules."""
    found = {}
    for module in modules:
        spec = getattr(module, "__spec__", None)
        origin, cached = getattr(spec, "origin", None), getattr(spec, "cached", None)
        if not origin or not cached or not Path(cached).is_file():
            continue
        data = Path(cached).read_bytes()
        if data[:4] == MAGIC_NUMBER:
            by = source_hash(Path(origin).read_bytes())
            found[str(cached)] = MAGIC_NUMBER + _BY_CHECKED_HASH + by + data[_HEAD:]
    return found


class Generated:
    """Code that dataclasses generate; until `end`, what is in `kept` is not compiled again."""

    def __init__(self, kept: Mapping[str, CodeType]) -> None:
        self._kept = kept
        self.used: dict[str, CodeType] = {}  # by its text
        dataclasses.exec = self._run  # type: ignore[attr-defined] # before the built-in one

    def end(self) -> None:
        del dataclasses.exec  # type: ignore[attr-defined]

    @property
    def is_kept(self) -> bool:
        return self.used.keys() == self._kept.keys()

    def _run(self, text: str, *scopes: dict[str, object]) -> None:
        code = self._kept.get(text)
        if code is None:
            code = compile(text, "<string>", "exec", dont_inherit=True)
        self.used[text] = code
        exec(code, *scopes)


def pack(files: Mapping[str, bytes], generated: Mapping[str, CodeType]) -> bytes:
    return marshal.dumps((sys.version, dict(files), dict(generated)))


def unpack(data: bytes) -> tuple[dict[str, bytes], dict[str, CodeType]]:
    """Return the packed files and code; nothing if another Python version has written them."""
    try:
        version, files, generated = marshal.loads(data)
    except (ValueError, EOFError, TypeError):
        return {}, {}
    return (dict(files), dict(generated)) if version == sys.version else ({}, {})


def put_in_place(files: Mapping[str, bytes]) -> None:
    """Write .pyc files before anything is imported, except for packages that are not installed."""
    for place, data in files.items():
        path = Path(place)
        if path.parent.parent.is_dir():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
