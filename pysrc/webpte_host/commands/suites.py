"""Suites of `serve.py verify`: a folder with a manifest, its zip, or a folder of such zips.

A zip may come from anywhere. Only plain files are unpacked, up to a size.
"""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from webpte_host.base.errors import HostError
from webpte_host.base.json_files import read_json
from webpte_host.commands.bundles import is_bundle
from webpte_host.commands.bundles import unpack as unpack_bundle

MANIFEST = "manifest.json"
MOST_FILES = 100_000
MOST_BYTES = 8 << 30  # unpacked
_KINDS = "A suite is a folder with a manifest.json, a .zip of one, a folder of such, or a .bpte."
_FAILURES = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def check_suite(suite: Path) -> None:
    """Check a suite with the standard library only: a wrong path fails before any set-up."""
    archives = _archives(suite)
    for archive in archives:
        with _opened(archive) as opened:
            _files(archive, opened)
    if not archives and not is_bundle(suite):
        read_manifest(suite)


@contextmanager
def opened_suite(suite: Path) -> Iterator[tuple[list[Any], Path]]:
    """The entries of a suite's manifest, and the folder of their files."""
    archives = _archives(suite)
    if not archives and not suite.is_file():
        yield read_manifest(suite), suite
        return
    with TemporaryDirectory() as made:
        folder = Path(made)
        if not archives:
            yield unpack_bundle(suite, folder), folder
            return
        entries: list[Any] = []
        for archive in archives:
            (folder / archive.stem).mkdir()
            _unpack(archive, folder / archive.stem)
            found = read_manifest(folder / archive.stem)
            entries += [_inside(archive.stem, entry) for entry in found]
        yield entries, folder


def read_manifest(suite: Path) -> list[object]:
    """Read the manifest of a folder."""
    path = suite / MANIFEST
    if not path.is_file():
        raise HostError(f"{path} cannot be read: no such file.\n{_KINDS}")
    entries = read_json(path, HostError)
    if not isinstance(entries, list):
        raise HostError(f"{path} must be a list of entries, not {type(entries).__name__}.")
    if not entries:
        raise HostError(f"{path} has no entries: there is nothing to verify.")
    return entries


def _archives(suite: Path) -> list[Path]:
    """Return the zips of a suite; empty for a bundle, or a folder with a manifest."""
    if suite.is_file():
        return [suite] if zipfile.is_zipfile(suite) else []
    return [] if (suite / MANIFEST).is_file() else sorted(suite.glob("*.zip"))


@contextmanager
def _opened(archive: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(archive) as opened:
            yield opened
    except _FAILURES as error:
        raise HostError(f"{archive} cannot be unpacked: {error}") from error


def _files(archive: Path, opened: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the files in an archive; raise HostError for a file that may not be unpacked."""
    listed = opened.infolist()
    if not all(info.filename for info in listed):  # `is_dir` of Python 3.11 needs a name
        raise HostError(f"{archive} has a file without a name. Make the archive again.")
    files = [info for info in listed if not info.is_dir()]
    names = [info.filename for info in files]
    total = sum(info.file_size for info in files)
    if MANIFEST not in names:
        raise HostError(f"{archive} has no {MANIFEST}.\n{_KINDS}")
    if len(files) > MOST_FILES or total > MOST_BYTES:
        raise HostError(
            f"{archive} has {len(files):,} files of {total:,} bytes; at most {MOST_FILES:,} of "
            f"{MOST_BYTES:,} bytes are unpacked. Unpack it yourself, and verify the folder."
        )
    for info in files:
        pure = PurePosixPath(info.filename)
        outside = pure.is_absolute() or ".." in pure.parts or ":" in info.filename
        kind = stat.S_IFMT(info.external_attr >> 16)
        if outside or "\\" in info.filename or kind not in (0, stat.S_IFREG):
            raise HostError(f"{archive}: {info.filename!r} is not a file inside of the archive.")
    if len({name.casefold() for name in names}) < len(names):
        raise HostError(f"{archive} has two files of the same name.")
    return files


def _unpack(archive: Path, folder: Path) -> None:
    with _opened(archive) as opened:
        for info in _files(archive, opened):
            target = folder / info.filename
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with opened.open(info) as source, target.open("xb") as out:
                    shutil.copyfileobj(source, out)
            except OSError as error:
                raise HostError(f"{archive}: {info.filename!r}: {error.strerror}") from error


def _inside(folder: str, entry: Any) -> Any:
    """Return an entry with its files in a folder of the suite."""
    if isinstance(entry, list):
        return [_inside(folder, item) for item in entry]
    if not isinstance(entry, dict):
        return entry
    return {
        key: f"{folder}/{value}"
        if key in ("pte", "path") and isinstance(value, str)
        else _inside(folder, value)
        for key, value in entry.items()
    }
