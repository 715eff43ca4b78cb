"""A cache of the results of long stages, keyed by their inputs.

A result is a folder `KIND-KEY`, written under a temporary name and renamed when it is complete. So
an interrupted stage never leaves a partial result.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

ABANDONED_SECONDS = 24 * 3600  # large models take hours on small machines
_KEY_DIGITS = 20


def content_key(parts: Iterable[str | bytes | Path]) -> str:
    """Hash texts and files in order; their boundaries count, too."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.read_bytes() if isinstance(part, Path) else part
        data = data.encode() if isinstance(data, str) else data
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@contextlib.contextmanager
def temporary_folder(parent: Path, purpose: str) -> Iterator[Path]:
    """A folder in `parent`, removed at the end unless renamed. Its name starts with a dot."""
    parent.mkdir(parents=True, exist_ok=True)
    sweep(parent)
    temporary = Path(tempfile.mkdtemp(prefix=f".{purpose}-", dir=parent))
    temporary.chmod(0o755)  # the final folder is readable by everybody
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sweep(parent: Path) -> None:
    """Remove the folders of killed processes; younger folders may still be in use."""
    for left in parent.glob(".*-*"):
        with contextlib.suppress(OSError):  # another process removed it meanwhile
            if time.time() - left.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(left, ignore_errors=True)


class StageCache:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, kind: str, key: str) -> Path | None:
        """Return the result if it is cached."""
        place = self._place(kind, key)
        return place if place.is_dir() else None

    def make(self, kind: str, key: str, work: Callable[[Path], None]) -> Path:
        """Return the result of `work`, which fills a new folder."""
        place = self._place(kind, key)
        with temporary_folder(self._folder, kind) as temporary:
            work(temporary)
            try:
                os.rename(temporary, place)
            except OSError:
                if not place.is_dir():  # otherwise another process was faster with the same result
                    raise
        return place

    def clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _place(self, kind: str, key: str) -> Path:
        return self._folder / f"{kind}-{key[:_KEY_DIGITS]}"
