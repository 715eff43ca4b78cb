"""The sources of the browser runtime's files: npm, PyPI, and Pyodide's own CDN.

No source is trusted: the caller compares every file with its pinned SHA-256, so it does not matter
which source delivered it.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import threading
import urllib.request
import zipfile
from pathlib import Path

from webpte_host.base.errors import HostError
from webpte_host.base.process import npm_command, pip_command, run_tool
from webpte_host.base.progress import Stage

# On a machine without open network, the CDN must fail fast, so that PyPI is tried. The second limit
# is for name lookups, which ignore socket timeouts.
CDN_CONNECT_SECONDS = 4.0
CDN_SILENCE_SECONDS = 6.0

_NETWORK_HINT = "Check the network connection and the registry settings, then run this again."


class WrongHashError(HostError):
    """The bytes do not have the pinned hash."""


def check_hash(data: bytes, sha256: str, what: str) -> None:
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise WrongHashError(
            f"{what} does not have the pinned SHA-256, so it was not used.\n"
            f"    expected {sha256}\n    found    {found}\n"
            "A proxy or mirror may have changed it: run this again, or from another network."
        )


def npm_files(package: str, version: str, names: list[str], work: Path) -> dict[str, bytes]:
    """Fetch the named members of a version of an npm package."""
    tarball = npm_pack(package, version, work)
    try:
        with tarfile.open(tarball) as tar:
            return {name: _member(tar, f"package/{name}") for name in names}
    except (tarfile.TarError, EOFError, OSError) as error:
        raise HostError(f"{tarball.name} from npm cannot be unpacked: {error}") from error


def npm_pack(package: str, version: str, work: Path) -> Path:
    """Fetch a version of an npm package, a .tgz."""
    work.mkdir()
    wanted = f"{package}@{version}"
    # Without the retry limits npm needs minutes to give up without a network.
    options = ["--ignore-scripts", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    command = [*npm_command(), "pack", wanted, *options]
    run_tool(command, f"npm pack {wanted}", cwd=work, hint=_NETWORK_HINT)
    tarballs = list(work.glob("*.tgz"))
    if len(tarballs) != 1:
        raise HostError(f"npm pack {wanted} succeeded but left {len(tarballs)} tarballs, not 1.")
    return tarballs[0]


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    try:
        file = tar.extractfile(name)
    except KeyError:
        file = None
    if file is None:
        raise HostError(f"the npm package has no file {name}: the registry sent another package.")
    return file.read()


def pip_download(
    name: str,
    version: str,
    work: Path,
    python_version: str | None = None,
    platform: str | None = None,
) -> Path:
    """Fetch a wheel from PyPI. pip's temporary files go to `work`, too, to measure progress."""
    work.mkdir()
    requirement = f"{name}=={version}"
    command = [*pip_command(), "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--retries=2", "--dest=.", requirement]
    if python_version is not None:
        command.append(f"--python-version={python_version}")
    if platform is not None:
        command.append(f"--platform={platform}")
    here = {"TMPDIR": str(work)}
    run_tool(command, f"pip download {requirement}", cwd=work, env=here, hint=_NETWORK_HINT)
    wheels = list(work.glob("*.whl"))
    if len(wheels) != 1:
        raise HostError(f"pip download {requirement} succeeded but left {len(wheels)} wheels.")
    return wheels[0]


def zip_members(archive: Path, names: list[str]) -> dict[str, bytes]:
    """Read the members with these full names; missing members are left out."""
    try:
        with zipfile.ZipFile(archive) as opened:
            present = set(opened.namelist())
            return {name: opened.read(name) for name in names if name in present}
    except (zipfile.BadZipFile, OSError) as error:
        raise HostError(f"{archive.name} cannot be unpacked: {error}") from error


def without_compiled_modules(wheel: bytes) -> bytes:
    """Remove the compiled modules of a wheel whose package works without them."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(wheel)) as compiled,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as pure,
    ):
        for name in sorted(compiled.namelist()):
            if not name.endswith(("/", ".so", ".pyd", ".c")):
                pure.writestr(zipfile.ZipInfo(name), compiled.read(name), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def cdn_base(pyodide_mjs: str, version: str) -> str | None:
    """Return the CDN folder that Pyodide's own loader falls back to."""
    match = re.search(r"`(https://[^`$]+)\$\{\w+\}([^`$]*/)`", pyodide_mjs)
    return f"{match[1]}{version}{match[2]}" if match else None


def cdn_files(base: str, names: list[str], stage: Stage) -> dict[str, bytes] | None:
    """Fetch all the named files; None if the CDN cannot be reached."""
    files: dict[str, bytes] = {}
    finished = threading.Event()

    def fetch() -> None:
        try:
            for name in names:
                request = urllib.request.Request(base + name, headers={"User-Agent": "webpte"})
                with urllib.request.urlopen(request, timeout=CDN_CONNECT_SECONDS) as reply:
                    chunks = []
                    while chunk := reply.read(1 << 16):
                        chunks.append(chunk)
                        stage.done += len(chunk)
                files[name] = b"".join(chunks)
        except (OSError, ValueError):
            pass  # after any error, the other source is tried next
        finally:
            finished.set()

    # A daemon thread, because a thread that hangs in a name lookup would keep the program alive.
    threading.Thread(target=fetch, daemon=True).start()
    seen = -1
    while not finished.wait(CDN_SILENCE_SECONDS):
        if stage.done == seen:
            return None
        seen = stage.done
    return files if len(files) == len(names) else None


def folder_bytes(folder: Path) -> int:
    """Sum the sizes of all files below, while other processes add and remove some."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total
