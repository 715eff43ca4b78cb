"""Builds the wheel from a copy of the checkout, so that nothing is left in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from webpte_host.layout import ROOT

_NEEDED = ("pyproject.toml", "README.md", "LICENSE", "pysrc", "wgsl")
_BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
_SETUPTOOLS = 77  # the first that reads `license = "..."`


def build_wheel(folder: Path) -> Path:
    """The wheel, in `folder`. Skips the test where this Python cannot build one."""
    setuptools = pytest.importorskip("setuptools")
    if int(setuptools.__version__.partition(".")[0]) < _SETUPTOOLS:
        pytest.skip(f"setuptools {_SETUPTOOLS} or newer is needed to build the wheel")
    source, out = folder / "source", folder / "wheel"
    source.mkdir()
    out.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info")
    for name in _NEEDED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source / name)
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, str(out)],
        cwd=source,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = out.glob("*.whl")
    return wheel
