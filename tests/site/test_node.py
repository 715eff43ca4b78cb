"""webpte in Node, on Dawn: runs the examples of docs/use/python.md and docs/use/compiled.md."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.compiling.cases import compile_program
from support.harness import limits
from support.write.wheel import build_wheel
from webpte_host.base.layout import ROOT, STATE, WEB
from webpte_host.base.process import npm_command, run_tool
from webpte_host.setup import chromium
from webpte_host.setup.runtime import ensure_runtime

WEBGPU = "webgpu@0.6.2"
SAMPLES = WEB / "samples"
EXAMPLES = ROOT / "docs" / "examples" / "node"


@pytest.fixture
def folder() -> Path:
    """A folder with Dawn in it, fetched once."""
    folder = STATE / "node"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "node_modules" / "webgpu").is_dir():
        command = [*npm_command(), "install", "--prefix", str(folder), "--ignore-scripts", WEBGPU]
        run_tool(command, f"npm install {WEBGPU}", cwd=folder)
    for path in EXAMPLES.iterdir():
        shutil.copy(path, folder)
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
    runtime = str(ensure_runtime() / "pyodide")
    said = run_example(folder, "digits.mjs", runtime, str(wheel), str(SAMPLES / "digits.pte"))
    assert said == "On webgpu, this is a 1."


def test_a_compiled_program(folder: Path, tmp_path: Path) -> None:
    card = json.loads((SAMPLES / "digits.json").read_text("utf-8"))
    compile_program(SAMPLES / "digits.pte", tmp_path / "digits", task=card)
    assert run_example(folder, "compiled.mjs", str(tmp_path / "digits")) == "This is a 1."


def run_example(folder: Path, *command: str) -> str:
    """Run an example in Node; return the last line of its output."""
    done = subprocess.run(
        ["node", *command],
        cwd=folder,
        env={**os.environ, **software_adapter()},
        capture_output=True,
        text=True,
        check=False,
        timeout=limits.START_MS / 1000,
    )
    assert done.stdout, done.stderr[-2000:]
    return done.stdout.splitlines()[-1]
