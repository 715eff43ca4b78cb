"""webpte in Node and Deno: runs the examples of docs/use/python.md and docs/use/compiled.md."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import webpte
from support.compiling.cases import compile_program
from support.harness import limits
from support.write.wheel import build_wheel
from webpte_host.base.layout import ROOT, STATE, WEB
from webpte_host.base.process import npm_command, run_tool
from webpte_host.setup import chromium
from webpte_host.setup.runtime import ensure_runtime

WEBGPU, DENO = "webgpu@0.6.2", "deno@2.9.6"
SAMPLES = WEB / "samples"
EXAMPLES = ROOT / "docs" / "examples" / "node"


def installed(folder: Path, package: str) -> Path:
    """Return a folder with a package of npm, which is fetched once."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "node_modules" / package.partition("@")[0]).is_dir():
        command = [*npm_command(), "install", "--prefix", str(folder), "--ignore-scripts", package]
        run_tool(command, f"npm install {package}", cwd=folder)
    return folder


@pytest.fixture
def folder() -> Path:
    """A folder with Dawn and the examples."""
    folder = installed(STATE / "node", WEBGPU)
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


GENERATES = """
import { open } from "./llama/index.js";
const program = await open();
const found = [];
for await (const token of program.generate([7, 8, 9], { maxNewTokens: 12 })) found.push(token);
console.log(JSON.stringify(found));
"""


@pytest.mark.thorough  # it fetches Deno, 100 MB
def test_compiled_programs_in_deno(tmp_path: Path) -> None:
    tool = installed(STATE / "deno", DENO) / "node_modules" / ".bin" / "deno"
    command = (str(tool), "run", "-A")
    card = json.loads((SAMPLES / "digits.json").read_text("utf-8"))
    compile_program(SAMPLES / "digits.pte", tmp_path / "digits", task=card)
    example = str(EXAMPLES / "compiled.mjs")
    said = run_example(tmp_path, example, str(tmp_path / "digits"), command=command)
    assert said == "This is a 1."
    model = ROOT / "tests" / "data" / "llm" / "llama_tiny_q4.pte"
    compile_program(model, tmp_path / "llama")
    (tmp_path / "generate.mjs").write_text(GENERATES, "utf-8")
    found = json.loads(run_example(tmp_path, "generate.mjs", command=command))

    async def expected() -> list[int]:
        async with await webpte.llm.load(model, device="numpy") as program:
            return [token async for token in webpte.llm.generate(program, [7, 8, 9], 12)]

    assert found == asyncio.run(expected())


def run_example(folder: Path, *arguments: str, command: Sequence[str] = ("node",)) -> str:
    """Run an example in Node, or by another command; return the last line of its output."""
    done = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env={**os.environ, **software_adapter()},
        capture_output=True,
        text=True,
        check=False,
        timeout=limits.START_MS / 1000,
    )
    assert done.stdout, done.stderr[-2000:]
    return done.stdout.splitlines()[-1]
