"""Minifies JavaScript with esbuild, a program of npm that is fetched once, by its pinned hash."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from webpte_host.base.errors import HostError
from webpte_host.base.layout import STATE
from webpte_host.base.progress import Display
from webpte_host.setup import sources

_LOCK: dict[str, Any] = json.loads(Path(__file__).with_name("esbuild_lock.json").read_bytes())
VERSION: str = _LOCK["version"]
_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
_SYSTEMS = {"linux": "linux", "darwin": "darwin", "win32": "win32"}


def minified(text: str, display: Display) -> str:
    """Return an ES module with the same meaning in fewer bytes. Raises HostError."""
    command = [str(program(display)), "--minify", "--format=esm", "--legal-comments=none"]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode:
        raise HostError(f"esbuild failed with exit code {done.returncode}:\n{done.stderr}")
    return done.stdout


def program(display: Display) -> Path:
    """Return esbuild for this machine, fetched from npm at its first use."""
    machine = _MACHINES.get(platform.machine().lower(), platform.machine())
    name = f"{_SYSTEMS.get(sys.platform, sys.platform)}-{machine}"
    if name not in _LOCK["binaries"]:
        known = ", ".join(_LOCK["binaries"])
        raise HostError(f"there is no esbuild for {name}; there is for {known}.")
    member, sha256 = _LOCK["binaries"][name]
    path = STATE / f"esbuild-{VERSION}" / Path(member).name
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    package = f"@esbuild/{name}"
    with (
        display.stage(f"{package} {VERSION} from npm"),
        tempfile.TemporaryDirectory(dir=path.parent) as work,
    ):
        data = sources.npm_files(package, VERSION, [member], Path(work) / "npm")[member]
        sources.check_hash(data, sha256, f"{member} of {package} {VERSION} from npm")
        made = Path(work) / path.name
        made.write_bytes(data)
        made.chmod(0o755)
        os.replace(made, path)
    return path
