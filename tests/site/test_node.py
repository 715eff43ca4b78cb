"""webpte in Node, on Dawn: runs the example of docs/use/python.md."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.harness import limits
from support.write.wheel import build_wheel
from webpte_host.base.layout import ROOT, STATE, WEB
from webpte_host.base.process import npm_command, run_tool
from webpte_host.setup import chromium
from webpte_host.setup.runtime import ensure_runtime

WEBGPU = "webgpu@0.6.2"
EXAMPLE = ROOT / "docs" / "examples" / "node" / "digits.mjs"


@pytest.fixture
def folder() -> Path:
    """A folder with Dawn in it, fetched once."""
    folder = STATE / "node"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "node_modules" / "webgpu").is_dir():
        command = [*npm_command(), "install", "--prefix", str(folder), "--ignore-scripts", WEBGPU]
        run_tool(command, f"npm install {WEBGPU}", cwd=folder)
    shutil.copy(EXAMPLE, folder)
    return folder


def software_adapter() -> dict[str, str]:
    """Return variables that select Chromium's software driver, so that no GPU is needed."""
    browser = chromium.find()
    roots = [Path(browser).resolve().parent] if browser else []
    drivers = [
        path
        for root in (*roots, Path("/usr/lib/chromium"))
        for path in root.glob("vk_swiftshader_icd.json")
    ]
    return {"VK_DRIVER_FILES": str(drivers[0])} if drivers else {}


def test_example(folder: Path, tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path)
    command = ["node", "digits.mjs", str(ensure_runtime() / "pyodide"), str(wheel)]
    done = subprocess.run(
        [*command, str(WEB / "samples" / "digits.pte")],
        cwd=folder,
        env={**os.environ, **software_adapter()},
        capture_output=True,
        text=True,
        check=False,
        timeout=limits.START_MS / 1000,
    )
    assert done.stdout.splitlines()[-1:] == ["On webgpu, this is a 1."], done.stderr[-2000:]
