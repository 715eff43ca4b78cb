"""Compiled modules from the last visit: importing takes about half as long without compiling.

Python keeps none by itself: here files are new at every visit, and so are their times. What this
keeps goes by the hash of the source, which Python checks: a module that has changed is compiled.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Iterable, Mapping
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path

_BY_CHECKED_HASH = (0b11).to_bytes(4, "little")  # how a .pyc says what it goes by; see PEP 552
_HEAD = 16  # bytes before the code: magic number, flags, and what it goes by


def compiled_modules(modules: Iterable[object]) -> dict[str, bytes]:
    """By place, the .pyc files that Python has written while it imported these."""
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


def pack(files: Mapping[str, bytes]) -> bytes:
    return marshal.dumps((sys.version, dict(files)))


def unpack(data: bytes) -> dict[str, bytes]:
    """{} if another Python, or something else, has made it."""
    try:
        version, files = marshal.loads(data)
    except (ValueError, EOFError, TypeError):
        return {}
    return dict(files) if version == sys.version else {}


def put_in_place(files: Mapping[str, bytes]) -> None:
    """Before anything is imported. What is for packages that are not here is left out."""
    for place, data in files.items():
        path = Path(place)
        if path.parent.parent.is_dir():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
