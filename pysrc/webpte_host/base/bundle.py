"""The archives of Python sources that the browser fetches.

    webpte.zip      the Python package; its shaders are at `webpte/wgsl/`, as in the wheel; and
                    boot, which starts Python
    start.zip       the same and the modules of the page, for its start: the files of compiled
                    modules are empty
    sources.zip     the sources of these (see web/boot/later.py)
    suites.zip      the runner of suites and the client of OpenAI's API, for the harness page alone

and another in the package for npm, which also has the modules of its worker.

Archives are built in memory and rebuilt when a source changes, so that a reload of the page shows
an edit. An archive costs a single request; a request for each of a hundred modules would take a
tenth of the page's start.
"""

from __future__ import annotations

import hashlib
import io
import json
import threading
import zipfile
from dataclasses import dataclass
from pathlib import Path

from webpte_host.base.layout import PYSRC, WEB, WGSL

_EPOCH = (2020, 1, 1, 0, 0, 0)
_PACKAGE_SUFFIXES = frozenset({".html", ".js", ".json", ".pte", ".py", ".ts", ".typed"})
_SHADER_SUFFIXES = frozenset({".wgsl"})
_MODULE_SUFFIXES = frozenset({".py"})
_BEFORE = "boot/"  # imported before compiled modules are in place


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
                self._archive = Archive(_pack(self._contents(files)), now)
                self._signature = now
            return self._archive

    def etag(self) -> str:
        """Return the archive's `etag`, without packing it."""
        return signature(self._files())

    def parts(self, *more: Part) -> tuple[Part, ...]:
        """Return the parts, and more."""
        return (*self._parts, *more)

    def _contents(self, files: dict[str, Path]) -> dict[str, bytes]:
        return {name: path.read_bytes() for name, path in files.items()}

    def _files(self) -> dict[str, Path]:
        """Map names in the archive to files, sorted."""
        found: dict[str, Path] = {}
        for part in self._parts:
            files = visible_files(part.folder, part.suffixes)
            found |= {f"{part.prefix}/{name}": path for name, path in files.items()}
        return dict(sorted(found.items()))


class StartBundle(Bundle):
    """The files of a start. Files of compiled modules are empty, as their sources come later."""

    def __init__(self, compiled: Path, *parts: Part) -> None:
        """Build it for modules in `compiled`, a file with the hashes of their sources by name."""
        super().__init__(*parts)
        self._compiled = compiled

    def _contents(self, files: dict[str, Path]) -> dict[str, bytes]:
        found = super()._contents(files)
        later = self._later(found)
        return {name: b"" if name in later else data for name, data in found.items()}

    def _later(self, found: dict[str, bytes]) -> set[str]:
        """Return the names of sources that are not needed; edited sources are."""
        try:
            compiled: dict[str, str] = json.loads(self._compiled.read_bytes())
        except OSError:
            return set()
        return {
            name
            for name, data in found.items()
            if not name.startswith(_BEFORE)
            and hashlib.sha256(data).hexdigest() == compiled.get(name)
        }


class SourcesBundle(StartBundle):
    """The sources that a start does not need."""

    def _contents(self, files: dict[str, Path]) -> dict[str, bytes]:
        found = Bundle._contents(self, files)
        later = self._later(found)
        return {name: data for name, data in found.items() if name in later}


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
    return Bundle(_page(web))


def _page(web: Path) -> Part:
    return Part(web / "page", "page", _MODULE_SUFFIXES)


def start_bundles(
    web: Path, compiled: Path, package: Bundle | None = None
) -> tuple[StartBundle, SourcesBundle]:
    """Return the archives of the page's start, and of sources that it does without.

    compiled  as for `StartBundle`
    """
    parts = (package or package_bundle()).parts(_page(web))
    return StartBundle(compiled, *parts), SourcesBundle(compiled, *parts)


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


def _pack(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED, 9)
    return buffer.getvalue()
