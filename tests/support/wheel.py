"""Builds the wheel from a copy of the checkout, so that nothing is left in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from webpte_host.layout import ROOT

_NEEDED = ("pyproject.toml", "README.md", "LICENSE", "pysrc", "wgsl")
_BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
_SETUPTOOLS = 77  # the first that reads `license = "..."`


def build_wheel(folder: Path) -> Path:
    """The wheel, in `folder`. The test environment has a setuptools that can build one."""
    found = version("setuptools")
    assert int(found.partition(".")[0]) >= _SETUPTOOLS, f"setuptools {found} is too old"
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
