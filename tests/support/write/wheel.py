"""Builds the package, and installs it into an empty environment, as users do."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from dataclasses import dataclass
from pathlib import Path

from webpte_host.base.process import pip_command
from webpte_host.site.build_package import build_wheel, copy_sources

__all__ = ["CleanEnvironment", "build_sdist", "build_wheel", "wheel_of_sdist"]

_BUILD = "import sys; from setuptools import build_meta; build_meta.build_{}(sys.argv[1])"
_ENVIRONMENT = {"PIP_CONFIG_FILE": os.devnull}  # without the user's settings


def build_sdist(folder: Path) -> Path:
    """Build the sdist with the test environment's setuptools."""
    return _built("sdist", copy_sources(folder / "source"), folder)


def wheel_of_sdist(sdist: Path, folder: Path) -> Path:
    """Build a wheel from the sdist, as pip does if there is no wheel."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (source,) = (folder / "unpacked").iterdir()
    return _built("wheel", source, folder)


def _built(kind: str, source: Path, folder: Path) -> Path:
    out = folder / kind
    out.mkdir()
    _run([sys.executable, "-c", _BUILD.format(kind), str(out)], source)
    (made,) = out.iterdir()
    return made


@dataclass(frozen=True)
class CleanEnvironment:
    """An environment without the checkout. Some packages are borrowed from the test environment,
    so that nothing needs a network."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, borrowed: tuple[str, ...]) -> CleanEnvironment:
        venv.create(folder / "venv", with_pip=False, symlinks=True)
        made = cls(folder)
        shelf = folder / "borrowed"
        shelf.mkdir()
        for installed in Path(sysconfig.get_path("platlib")).iterdir():
            if installed.name.partition("-")[0].partition(".")[0] in borrowed:
                (shelf / installed.name).symlink_to(installed)
        (packages,) = (folder / "venv").glob("lib/python*/site-packages")
        (packages / "borrowed.pth").write_text(f"{shelf}\n", encoding="utf-8")
        return made

    @property
    def python(self) -> str:
        return str(self.folder / "venv" / "bin" / "python")

    def install(self, package: Path) -> None:
        """Install a package without a network: a new dependency, not borrowed, fails here."""
        command = [*pip_command(), "--python", self.python, "install", "--no-index"]
        command += ["--disable-pip-version-check", "--no-compile"]
        _run([*command, str(package)], self.folder)

    def run(self, code: str) -> str:
        return _run([self.python, "-c", code], self.folder)


def _run(command: list[str], cwd: Path) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=_ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
