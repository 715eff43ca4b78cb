"""The environment of `serve.py devices`: what runs a GPU natively, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from webpte_host.base import pinned_venv
from webpte_host.base.layout import PYSRC
from webpte_host.commands import devices
from webpte_host.setup import environment, native_environment

NEEDED = {"dawn-python", "flatbuffers", "numpy"}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Set environments up in other folders, without pip; returns what pip would install."""
    found: list[str] = []

    def run_tool(command: list[str], *_: Any, **__: Any) -> None:
        found.extend(one.partition("==")[0] for one in command if "==" in one)

    monkeypatch.setattr(environment, "inside", lambda: False)
    monkeypatch.setattr(native_environment, "FOLDER", tmp_path / "native")
    monkeypatch.setattr(pinned_venv, "run_tool", run_tool)
    return found


def test_devices_installs_only_what_a_native_device_needs(
    installed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[Path, list[str]]] = []

    def rerun_with(python: Path, arguments: list[str]) -> int:
        started.append((python, arguments))
        return 0

    monkeypatch.setattr(environment, "rerun_with", rerun_with)
    assert devices.main(["--json"]) == 0
    assert set(installed) == NEEDED
    (python, arguments), installed[:] = started.pop(), []
    assert python.is_relative_to(tmp_path / "native")
    assert arguments == ["devices", "--json"]
    devices.main([])
    assert not installed, "it was set up twice"


def test_these_packages_suffice() -> None:
    """Import all that `serve.py devices` does where nothing else can be imported."""
    code = """
import sys
from importlib.abc import MetaPathFinder

class Refuse(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        allowed = {"numpy", "flatbuffers", "pydawn", "webpte", "webpte_host"}
        if name.partition(".")[0] not in allowed | sys.stdlib_module_names:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refuse())
import webpte
from webpte_host.commands import devices
from webpte.engine.gpu.native.dawn import load_dawn
load_dawn()  # raises if a package is missing
"""
    run = [sys.executable, "-c", code]
    done = subprocess.run(
        run, env={"PYTHONPATH": str(PYSRC)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
