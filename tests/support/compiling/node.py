"""Modules of the runtime of compiled programs, in Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from webpte.compiling import runtime_files

MODULES = Path(runtime_files.__file__).parent / "runtime"


def modules_in(folder: Path) -> Path:
    """Write each module of the runtime to a folder, and return it; skip without Node."""
    if shutil.which("node") is None:
        pytest.skip("there is no Node")
    for path in MODULES.rglob("*.js"):
        name = "-".join(path.relative_to(MODULES).with_suffix("").parts)
        (folder / f"{name}.mjs").write_text(runtime_files.bundled(path), "utf-8")
    return folder


def run(modules: Path, code: str, given: Any = None) -> Any:
    """Run the text of an async function, which gets `given`, and return its result."""
    text = f"const given = {json.dumps(given)};\nconst run = async () => {{ {code} }};\n"
    (modules / "run.mjs").write_text(
        f"{text}console.log(JSON.stringify(await run() ?? null));\n", "utf-8"
    )
    command = ["node", "run.mjs"]
    done = subprocess.run(command, cwd=modules, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
