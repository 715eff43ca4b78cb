"""A fake registry, recipe and export environment: `serve.py models` without a network.

The recipe's "network" adds 0, 1, 2 to three columns, and the product is a program that runs. The
export Python is the running Python, with a start-up script that replaces the exporter.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import shutil
import sys
import textwrap
import zipfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte_export
from support.harness.samples import add_graph
from support.write.pte_writer import write_pte
from webpte_export.catalog import Network, Recipe, Value, Wheel
from webpte_host.base.errors import HostError
from webpte_host.base.layout import ROOT
from webpte_host.base.progress import Display
from webpte_host.commands.models import Models
from webpte_host.models.cache import StageCache
from webpte_host.models.stages import Stages
from webpte_host.models.store import ModelStore

NAME = "adder"
WHEEL = "adder-1.0-py3-none-any.whl"
WEIGHTS = "adder/weights.json"

# Stands for pip: copies the wheel that is asked for, and keeps a list of requests.
PIP = """
import pathlib, shutil, sys
registry = pathlib.Path({registry!r})
with (registry / "calls.txt").open("a") as calls:
    calls.write("pip\\n")
shutil.copy(registry / "adder-1.0-py3-none-any.whl", ".")
"""
# Stands for the export Python: argv is `-m MODULE ...`, as it would be for a real one.
PYTHON = """
import importlib, pathlib, sys
sys.path[:0] = [{pysrc!r}, {tests!r}]
from support.page import fake_models
registry = pathlib.Path({registry!r})
with (registry / "calls.txt").open("a") as calls:
    calls.write(sys.argv[2].rpartition(".")[2] + "\\n")
module = importlib.import_module(sys.argv[2])
module.all_recipes = lambda: fake_models.fake_recipes(registry)
import webpte_export
webpte_export.export = fake_models.fake_export
sys.exit(module.main(sys.argv[3:]))
"""


class FakeTensor:
    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array, np.float32)

    def contiguous(self) -> FakeTensor:
        return self

    def numpy(self) -> Any:
        return self.array


def wheel_bytes(shift: float = 0.0) -> bytes:
    """Return a wheel; `shift` is the error of its expected results."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo(WEIGHTS), json.dumps(shift))
        archive.writestr(zipfile.ZipInfo("adder-1.0.dist-info/LICENSE"), "Do what you like.")
    return buffer.getvalue()


def fake_recipes(registry: Path) -> dict[str, Recipe]:
    data = (registry / WHEEL).read_bytes()
    recipe = Recipe(
        name=NAME,
        title="An adder",
        task="sums",
        licence="0BSD",
        licence_from="adder-1.0.dist-info/LICENSE",
        wheels=(Wheel("adder", "1.0", hashlib.sha256(data).hexdigest(), len(data), (WEIGHTS,)),),
        bytes=3_000_000,
        view="run",
        inputs=(Value("numbers", "two rows of three", mean=(0.5,)),),
        outputs=(Value("sums", "of them and 0, 1, 2", labels="labels.txt"),),
        build=_build,
        tell=lambda outputs, folder: f"the second sum is {outputs[0][0, 1]:.1f}",
    )
    return {NAME: recipe}


def _build(files: Path) -> Network:
    shift = json.loads((files / WEIGHTS).read_text())
    return Network(
        shift,
        [(FakeTensor(np.full((2, 3), 3.5)),)],
        files={"labels.txt": b"one\ntwo\n", "tokenizer.json": b"{}"},
    )


@dataclass
class FakeReport:
    program: Path
    suite: Path
    passed: bool = True
    problem: str = ""

    def json(self) -> dict[str, Any]:
        return {"delegates": 1, "host_ops": [], "submissions": 1}


def fake_export(model: float, inputs: Sequence[FakeTensor], path: Path, **_: Any) -> FakeReport:
    """Write what `webpte_export.export` leaves, for the program of `add_graph`."""
    path.write_bytes(write_pte(add_graph()))
    path.with_suffix(".report.json").write_text("{}")
    suite = path.with_suffix(".suite")
    suite.mkdir()
    (suite / path.name).write_bytes(path.read_bytes())
    given = inputs[0].array
    named = {"input.bin": given, "output.bin": given + np.arange(3) + model}
    files = []
    for name, array in named.items():
        (suite / name).write_bytes(array.astype("<f4").tobytes())
        files.append({"path": name, "shape": list(array.shape), "dtype": "float32"})
    entry = {"op": NAME, "case": "export", "pte": path.name, "atol": 1e-5, "rtol": 1e-5}
    entry |= {"inputs": files[:1], "golden": files[1]}
    (suite / "manifest.json").write_text(json.dumps([entry]))
    return FakeReport(path, suite)


class FakeKitchen:
    """A folder for everything, and the command that uses it.

    `pip` and `python` are real processes. `run_tool` does the same in this process, faster.
    """

    def __init__(self, folder: Path) -> None:
        self.registry = folder / "registry"
        self.registry.mkdir(parents=True)
        self.publish(wheel_bytes())
        places = {"registry": str(self.registry), "pysrc": str(ROOT / "pysrc")}
        places |= {"tests": str(ROOT / "tests")}
        self.pip = self._script(folder / "pip.py", PIP.format(**places))
        script = self._script(folder / "start.py", PYTHON.format(**places))
        self.python = folder / "python"
        self.python.write_text(f'#!/bin/sh\nexec {script[0]} {script[1]} "$@"\n')
        self.python.chmod(0o755)
        self.store = ModelStore(folder / "state/models")
        self.cache = folder / "state/model-cache"
        self.shown = io.StringIO()

    def _script(self, path: Path, text: str) -> list[str]:
        path.write_text(textwrap.dedent(text))
        return [sys.executable, str(path)]

    def run_tool(self, command: Sequence[str], what: str, *, cwd: Path, **_: Any) -> None:
        """Replace `webpte_host.base.process.run_tool` for the scripts above."""
        if command[: len(self.pip)] == self.pip:
            self._count("pip")
            shutil.copy(self.registry / WHEEL, cwd)
            return
        name, arguments = command[2], list(command[3:])
        self._count(name.rpartition(".")[2])
        module = importlib.import_module(name)
        said = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(said):
            patch.setattr(module, "all_recipes", lambda: fake_recipes(self.registry))
            patch.setattr(webpte_export, "export", fake_export)
            code = module.main(arguments)
        if code:
            raise HostError(f"{what} failed:\n{said.getvalue()}")

    def _count(self, call: str) -> None:
        with (self.registry / "calls.txt").open("a") as calls:
            calls.write(f"{call}\n")

    def publish(self, wheel: bytes) -> None:
        (self.registry / WHEEL).write_bytes(wheel)

    def models(self, recipes: dict[str, Recipe] | None = None) -> Models:
        stages = Stages(Display(self.shown), StageCache(self.cache))
        return Models(recipes or fake_recipes(self.registry), self.store, stages)

    def calls(self) -> list[str]:
        """Return the steps that were done since the last call."""
        path = self.registry / "calls.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def index(self) -> list[str]:
        path = self.store.folder / "index.json"
        return [card["name"] for card in json.loads(path.read_text())] if path.exists() else []

    def visible(self) -> set[str]:
        """Return the cards that the server would show."""
        if not self.store.folder.exists():
            return set()
        return {path.name for path in self.store.folder.iterdir() if path.name[0] != "."}
