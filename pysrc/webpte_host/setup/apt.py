"""Installs packages of Debian and its derivatives, if this process may."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from webpte_host.base.errors import HostError
from webpte_host.base.process import run_tool
from webpte_host.base.progress import Display

_SOURCES = Path("/etc/apt")
_RELEASE = Path("/etc/os-release")
_QUIET = {"DEBIAN_FRONTEND": "noninteractive"}


def install(display: Display, package: str, title: str) -> bool:
    """Install a package; return whether it is installed. False without apt or without the right."""
    return _install(display, package, f"{title} from the system's packages")


def install_backport(display: Display, package: str, title: str) -> bool:
    """Install a package from the backports of this machine's Debian release.

    Returns False if this is not Debian, the process may not install, or no server has the
    backports. The source of the backports is temporary; apt's configuration stays unchanged.
    """
    with tempfile.TemporaryDirectory() as folder:
        suite = write_backports(Path(folder))
        if suite is None:
            return False
        options = ("-o", f"Dir::Etc::SourceParts={folder}")
        chosen = ("-t", suite)
        return _install(display, package, f"{title} from {suite}", options, chosen)


def write_backports(folder: Path) -> str | None:
    """Write this machine's sources and a source of backports; return the backports' suite."""
    try:
        named = re.search(r"^VERSION_CODENAME=\"?(\w+)", _RELEASE.read_text(), re.MULTILINE)
        for file in (_SOURCES / "sources.list.d").glob("*"):
            (folder / file.name).symlink_to(file)
        server = next(_servers(named[1]), None) if named else None
        if named is None or server is None:
            return None
        address, key = server
        suite, signed = f"{named[1]}-backports", f"[signed-by={key}] " if key else ""
        (folder / "webpte-backports.list").write_text(f"deb {signed}{address} {suite} main\n")
    except OSError:
        return None
    return suite


def _servers(codename: str) -> Iterator[tuple[str, str]]:
    """Yield each server of Debian's release `codename`, and the key that signs its packages."""
    lists = [_SOURCES / "sources.list", *sorted((_SOURCES / "sources.list.d").glob("*"))]
    for text in (file.read_text(errors="replace") for file in lists if file.exists()):
        for found in re.finditer(rf"^deb (?:\[(.*)\] )?(\S+) {codename} ", text, re.MULTILINE):
            key = re.search(r"signed-by=(\S+)", found[1] or "")
            yield found[2], key[1] if key else ""
        for block in text.split("\n\n"):
            fields = dict(re.findall(r"^([\w-]+): *(.*)$", block, re.MULTILINE))
            if codename in fields.get("Suites", "").split():
                yield fields.get("URIs", "").split()[0], fields.get("Signed-By", "")


def _install(
    display: Display,
    package: str,
    title: str,
    options: Sequence[str] = (),
    chosen: Sequence[str] = (),
) -> bool:
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return False
    with display.stage(title) as stage:
        # An update fails if any of many sources is bad; the lists may still be good enough.
        with contextlib.suppress(HostError):
            run_tool([apt, *options, "update"], "apt-get update", cwd=Path("/"), env=_QUIET)
        try:
            command = [apt, *options, "install", "-y", "--no-install-recommends", *chosen, package]
            run_tool(command, f"apt-get install {package}", cwd=Path("/"), env=_QUIET)
        except HostError:
            stage.outcome = "not available"
            return False
    return True
