"""`webpte.zip`: the Python package and its shaders as the browser gets them.

Built in memory and rebuilt when a source changes, so that reloading the page is all it takes to
try an edit. The shaders are at `webpte/wgsl/`, where the wheel has them too.
"""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from dataclasses import dataclass
from pathlib import Path

from webpte_host.layout import PYSRC, WGSL

_EPOCH = (2020, 1, 1, 0, 0, 0)
_PACKAGE_SUFFIXES = frozenset({".py", ".js", ".json", ".typed"})
_SHADER_SUFFIXES = frozenset({".wgsl"})


@dataclass(frozen=True)
class Archive:
    data: bytes
    etag: str


class Bundle:
    """The current archive. Safe to ask from several threads."""

    def __init__(self, package: Path = PYSRC / "webpte", shaders: Path = WGSL) -> None:
        self._package = package
        self._shaders = shaders
        self._lock = threading.Lock()
        self._signature = ""
        self._archive = Archive(b"", "")

    def archive(self) -> Archive:
        with self._lock:
            files = self._files()
            signature = _signature(files)
            if signature != self._signature:
                self._archive = Archive(_pack(files), signature)
                self._signature = signature
            return self._archive

    def _files(self) -> dict[str, Path]:
        """Name in the archive -> file, sorted."""
        package = _collect(self._package, "webpte", _PACKAGE_SUFFIXES)
        shaders = _collect(self._shaders, "webpte/wgsl", _SHADER_SUFFIXES)
        return dict(sorted({**package, **shaders}.items()))


def _collect(folder: Path, prefix: str, suffixes: frozenset[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in folder.rglob("*"):
        relative = path.relative_to(folder)
        hidden = any(part.startswith((".", "__pycache__")) for part in relative.parts)
        if not hidden and path.suffix in suffixes and path.is_file():
            found[f"{prefix}/{relative.as_posix()}"] = path
    return found


def _signature(files: dict[str, Path]) -> str:
    digest = hashlib.sha256()
    for name, path in files.items():
        status = path.stat()
        digest.update(f"{name}\0{status.st_mtime_ns}\0{status.st_size}\n".encode())
    return digest.hexdigest()[:32]


def _pack(files: dict[str, Path]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in files.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
