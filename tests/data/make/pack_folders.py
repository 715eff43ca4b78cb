"""Packs folders of models into one archive."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path


def pack(out: Path, archive: Path, files: Sequence[str], names: Iterable[str]) -> None:
    """Write an archive of folders, in which files that models have in common take no room."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    folders = list(names)
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for file in files:
            for name in folders:
                if (out / name / file).is_file():
                    entry = tarfile.TarInfo(f"{name}/{file}")  # of a fixed time and user
                    data = (out / name / file).read_bytes()
                    entry.size = len(data)
                    packed.addfile(entry, io.BytesIO(data))
