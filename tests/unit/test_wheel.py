"""The wheel works where there is no checkout: with its own shaders."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from support.pte_writer import GraphWriter, write_pte
from support.wheel import build_wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("build"))


def test_works_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    g = GraphWriter()
    x = g.tensor((3,))
    w = g.prepack(g.tensor((3,), constant=np.array([1, 2, 3], np.float32)))
    g.inputs(x)
    g.outputs(g.op("aten.add.Tensor", x, w, g.int(1), g.tensor((3,))))
    (tmp_path / "tiny.pte").write_bytes(write_pte(g))
    code = """
import asyncio, sys
import numpy as np
import webpte
from webpte.gpu.recording import RecordingDevice

async def main():
    program = await webpte.load("tiny.pte", device="numpy")
    (y,) = await program.forward(np.ones(3, np.float32))
    recorded = await webpte.load("tiny.pte", device=RecordingDevice())
    print(webpte.__file__, y.tolist(), recorded.stats.pipelines)

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(maxsplit=1)[1].strip() == "[2.0, 3.0, 4.0] 1"
    assert done.stdout.startswith(str(tmp_path))
