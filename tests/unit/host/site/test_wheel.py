"""The package: its content, and that it works without a checkout."""

from __future__ import annotations

import email
import io
import json
import re
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

import webpte
from support.write.pte_writer import GraphWriter, write_pte
from support.write.wheel import CleanEnvironment, build_sdist, build_wheel, wheel_of_sdist
from webpte_host.base.bundle import package_bundle

NAME = f"webpte-{webpte.__version__}"

# Loads and plans a program, which needs the shaders.
USE = """
import asyncio, importlib.metadata, json
import numpy as np
import webpte
from webpte.engine.gpu.simulated.device import SimulatedDevice

async def main():
    program = await webpte.load("tiny.pte", device="numpy")
    (y,) = await program.forward(np.ones(3, np.float32))
    recorded = await webpte.load("tiny.pte", device=SimulatedDevice())
    return y.tolist(), recorded.stats.pipelines

y, pipelines = asyncio.run(main())
installed = importlib.metadata.version("webpte")
print(json.dumps([webpte.__file__, installed, webpte.__version__, y, pipelines]))
"""


def tiny_program() -> bytes:
    g = GraphWriter()
    x = g.tensor((3,))
    w = g.prepack(g.tensor((3,), constant=np.array([1, 2, 3], np.float32)))
    g.inputs(x)
    g.outputs(g.op("aten.add.Tensor", x, w, g.int(1), g.tensor((3,))))
    return write_pte(g)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def packed(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_name_says_any_platform(wheel: Path) -> None:
    assert wheel.name == f"{NAME}-py3-none-any.whl"


def test_has_what_the_browser_gets(wheel: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(package_bundle().archive().data)) as bundle:
        served = set(bundle.namelist())
    started = {name for name in served if name.startswith("boot/")}  # before the package
    service = {name for name in packed(wheel) if name.startswith("webpte_serve/")}
    assert packed(wheel) - service == served - started
    assert {"webpte_serve/openai/client.py", "webpte_serve/api/app.py"} <= service
    assert "boot/compiled.py" in started
    assert any(name.endswith(".wgsl") for name in served)
    assert {"webpte/engine/gpu/webgpu/engine.js", "webpte/py.typed"} <= served


def test_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"{NAME}.dist-info/METADATA").decode()
        assert f"{NAME}.dist-info/licenses/LICENSE" in archive.namelist()
    assert f"Version: {webpte.__version__}\n" in metadata
    assert "Requires-Python: >=3.11" in metadata
    assert "License-Expression: BSD-3-Clause" in metadata
    assert "Requires-Dist: numpy" in metadata
    assert "Classifier: Typing :: Typed" in metadata


def test_registries_show_a_page_that_stands_alone(wheel: Path, root: Path) -> None:
    """Relative links and pictures would be broken in a registry."""
    with zipfile.ZipFile(wheel) as archive:
        raw = archive.read(f"{NAME}.dist-info/METADATA").decode()
    metadata = email.message_from_string(raw)
    assert metadata["Description-Content-Type"] == "text/markdown"
    shown = metadata.get_payload()
    assert shown == (root / "docs/package.md").read_text(encoding="utf-8")
    assert not re.findall(r"\]\((?!https://)|<img|serve\.py", shown)


def test_changelog_has_this_version(root: Path) -> None:
    lines = (root / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    newest = next(line for line in lines if line.startswith("## "))
    assert newest.split()[1] == webpte.__version__


@pytest.mark.thorough
def test_works_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    made = CleanEnvironment.make(tmp_path, borrowed=("numpy", "flatbuffers"))
    made.install(wheel)
    (tmp_path / "tiny.pte").write_bytes(tiny_program())
    file, installed, version, y, pipelines = json.loads(made.run(USE))
    assert file.startswith(str(tmp_path / "venv"))
    assert installed == version == webpte.__version__
    assert (y, pipelines) == ([2.0, 3.0, 4.0], 1)


@pytest.mark.thorough
def test_sources_make_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    sdist = build_sdist(tmp_path)
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"CHANGELOG.md", "LICENSE", "README.md"} <= names
    assert packed(wheel_of_sdist(sdist, tmp_path)) == packed(wheel)
