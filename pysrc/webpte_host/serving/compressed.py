"""Compressed copies of the server's files, kept in memory: each is made once."""

from __future__ import annotations

import gzip
import threading
from collections import OrderedDict

SMALLEST, LARGEST = 1024, 32 << 20  # bytes: other sizes stay plain
KEPT = 64 << 20  # bytes of all copies
_LEVEL = 4  # Pyodide's 9.6 MB in 0.15 s; the highest level saves another 4 %
_KINDS = ("text/", "application/json", "application/wasm", "application/manifest", "image/svg")


def is_worth(kind: str, size: int) -> bool:
    """Tell whether content of this media type and size is to be compressed."""
    return SMALLEST <= size <= LARGEST and kind.startswith(_KINDS)


def takes_gzip(accepted: str | None) -> bool:
    """Tell whether a client with this `Accept-Encoding` takes gzip."""
    for one in (accepted or "").split(","):
        name, _, options = one.strip().lower().partition(";")
        if name.strip() in ("gzip", "*"):
            return options.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


class CompressedCopies:
    """Copies by the ETag of the plain content. Safe to use from several threads."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._copies: OrderedDict[str, bytes] = OrderedDict()

    def of(self, key: str, plain: bytes) -> bytes:
        """Return the compressed copy of content whose path and ETag are the key."""
        with self._lock:
            if key in self._copies:
                self._copies.move_to_end(key)
                return self._copies[key]
        made = gzip.compress(plain, _LEVEL, mtime=0)
        with self._lock:
            self._copies[key] = made
            while sum(map(len, self._copies.values())) > self._kept and len(self._copies) > 1:
                self._copies.popitem(last=False)
        return made
