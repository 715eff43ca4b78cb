"""The archives of Python sources that the browser fetches.

    webpte.zip      the Python package; its shaders are at `webpte/wgsl/`, as in the wheel; and
                    boot, which starts Python
    page.zip        the modules of the page
    suites.zip      the runner of suites and the client of OpenAI's API, for the harness page alone

and another in the package for npm, which also has the modules of its worker.

Archives are built in memory and rebuilt when a source changes, so that a reload of the page shows
an edit. An archive costs a single request; a request for each of a hundred modules would take a
tenth of the page's start.
"""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from dataclasses import dataclass
from pathlib import Path

from webpte_host.base.layout import PYSRC, WEB, WGSL

_EPOCH = (2020, 1, 1, 0, 0, 0)
_PACKAGE_SUFFIXES = frozenset({".html", ".js", ".json", ".pte", ".py", ".ts", ".typed"})
_SHADER_SUFFIXES = frozenset({".wgsl"})
_MODULE_SUFFIXES = frozenset({".py"})


@dataclass(frozen=True)
class Archive:
    data: bytes
    etag: str


@dataclass(frozen=True)
class Part:
    """The files of a folder, at any depth, and their place in an archive."""

    folder: Path
    prefix: str
    suffixes: frozenset[str]


class Bundle:
    """The current archive. Safe to use from several threads."""

    def __init__(self, *parts: Part) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._signature = ""
        self._archive = Archive(b"", "")

    def archive(self) -> Archive:
        with self._lock:
            files = self._files()
            now = signature(files)
            if now != self._signature:
                self._archive = Archive(_pack(files), now)
                self._signature = now
            return self._archive

    def _files(self) -> dict[str, Path]:
        """Map names in the archive to files, sorted."""
        found: dict[str, Path] = {}
        for part in self._parts:
            files = visible_files(part.folder, part.suffixes)
            found |= {f"{part.prefix}/{name}": path for name, path in files.items()}
        return dict(sorted(found.items()))


def package_bundle(package: Path = PYSRC / "webpte", shaders: Path = WGSL, *more: Part) -> Bundle:
    return Bundle(
        Part(package, "webpte", _PACKAGE_SUFFIXES),
        Part(shaders, "webpte/wgsl", _SHADER_SUFFIXES),
        Part(WEB / "boot", "boot", _MODULE_SUFFIXES),
        *more,
    )


def npm_bundle() -> Bundle:
    worker = Part(WEB / "npm", "npm", _MODULE_SUFFIXES)
    return package_bundle(PYSRC / "webpte", WGSL, worker, _openai())


def _openai() -> Part:
    return Part(PYSRC / "webpte_serve/openai", "webpte_serve/openai", _MODULE_SUFFIXES)


def suites_bundle(package: Path = PYSRC / "webpte_export/suites") -> Bundle:
    return Bundle(Part(package, "webpte_export/suites", _MODULE_SUFFIXES), _openai())


def page_bundle(web: Path) -> Bundle:
    return Bundle(Part(web / "page", "page", _MODULE_SUFFIXES))


def visible_files(folder: Path, suffixes: frozenset[str] | None = None) -> dict[str, Path]:
    """Map names below the folder to files, sorted; only files with `suffixes`, if given."""
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        hidden = any(part.startswith((".", "__pycache__")) for part in relative.parts)
        wanted = suffixes is None or path.suffix in suffixes
        if not hidden and wanted and path.is_file():
            found[relative.as_posix()] = path
    return found


def signature(files: dict[str, Path]) -> str:
    """Return a digest that changes when any of the files changes."""
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
