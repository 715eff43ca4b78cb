"""Builds the Python package as a wheel, by pip from a copy of the checkout.

The copy is needed because setuptools leaves folders in its source tree.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
import tempfile
from pathlib import Path

from webpte_host.base.layout import ROOT
from webpte_host.base.process import pip_command, run_tool

_SOURCES = (
    *("pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE"),
    "docs/package.md",  # the description in registries
)
_FOLDERS = ("pysrc/webpte", "pysrc/webpte_serve", "wgsl")
_SETUPTOOLS = 77  # the first version that reads `license = "..."`
_HINT = "Check the network connection and pip's settings, then run this again."


def copy_sources(folder: Path) -> Path:
    """Copy the files that the package is built from."""
    ignored = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info")
    for name in _FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in _SOURCES:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def build_wheel(out: Path) -> Path:
    """Build the wheel in `out` and return its path. Raises HostError.

    Uses the running Python's setuptools if it is new enough: then no network is needed.
    """
    with tempfile.TemporaryDirectory(prefix="webpte-wheel-") as temporary:
        source = copy_sources(Path(temporary) / "source")
        made = Path(temporary) / "wheel"
        command = [*pip_command(), "--python", sys.executable, "wheel", "--no-input", "--no-deps"]
        command += ["--disable-pip-version-check", "--wheel-dir", str(made)]
        if _has_setuptools():
            command.append("--no-build-isolation")
        run_tool([*command, str(source)], "the build of the wheel", cwd=source, hint=_HINT)
        (wheel,) = made.glob("*.whl")
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(wheel, out / wheel.name))


def _has_setuptools() -> bool:
    try:
        return int(importlib.metadata.version("setuptools").partition(".")[0]) >= _SETUPTOOLS
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False
