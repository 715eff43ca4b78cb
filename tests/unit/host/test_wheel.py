"""The wheel: what the browser gets as webpte.zip is what an installed package has."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from webpte_host.bundle import Bundle

_BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, since setuptools leaves folders behind."""
    source = tmp_path_factory.mktemp("source")
    out = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(root / name, source)
    (source / "README.md").write_text("a README")
    for name in ("pysrc", "wgsl"):
        shutil.copytree(root / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-c", _BUILD, str(out)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("*.whl")
    return built


def test_name_says_any_platform(wheel: Path) -> None:
    assert wheel.name == "webpte-0.1.0-py3-none-any.whl"


def test_has_what_the_browser_gets(wheel: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(Bundle().archive().data)) as bundle:
        served = set(bundle.namelist())
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == served
    assert any(name.endswith(".wgsl") for name in packed)
    assert "webpte/gpu/engine.js" in packed


def test_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read("webpte-0.1.0.dist-info/METADATA").decode()
        assert "webpte-0.1.0.dist-info/licenses/LICENSE" in archive.namelist()
    assert "Requires-Python: >=3.11" in metadata
    assert "License-Expression: BSD-3-Clause" in metadata
    assert "Requires-Dist: numpy" in metadata
