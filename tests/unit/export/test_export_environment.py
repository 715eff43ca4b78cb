"""The environment for exports: created once, deleted if incomplete, replaced by a setting."""

from __future__ import annotations

import io
import os
import shutil
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from webpte_host.base import pinned_venv
from webpte_host.base.errors import HostError
from webpte_host.base.progress import Display
from webpte_host.setup import export_environment


class FakePip:
    """A fake of venv and pip, which records the requested packages, and fails on request."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.installed: list[Sequence[str]] = []
        self.failure: BaseException | None = None

    def create(self, folder: Path, **_options: Any) -> None:
        assert folder == self.folder
        python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        python.parent.mkdir(parents=True)
        python.write_text("a fake")

    def run_tool(self, command: Sequence[str], _what: str, **_options: Any) -> None:
        self.installed.append([part for part in command if "==" in part])
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePip:
    fake = FakePip(tmp_path / "state" / "export")
    monkeypatch.delenv(export_environment.SETTING, raising=False)
    monkeypatch.setattr(export_environment, "FOLDER", fake.folder)
    monkeypatch.setattr(venv, "create", fake.create)
    monkeypatch.setattr(pinned_venv, "run_tool", fake.run_tool)
    return fake


def display() -> Display:
    return Display(io.StringIO())


def test_it_is_made_once_and_torch_comes_first(pip: FakePip) -> None:
    python = export_environment.export_python(display())
    assert python.is_relative_to(pip.folder)
    assert python.exists()
    first, second = pip.installed
    assert first == ["torch==2.13.0"]
    assert "executorch==1.5.1" in second
    assert export_environment.export_python(display()) == python
    assert len(pip.installed) == 2


def test_other_packages_make_it_anew(pip: FakePip, monkeypatch: pytest.MonkeyPatch) -> None:
    export_environment.export_python(display())
    pip.installed.clear()
    monkeypatch.setattr(export_environment, "PINNED", ("torch==9.9", "executorch==9.9"))
    shutil.rmtree(pip.folder)
    export_environment.export_python(display())
    assert pip.installed == [["torch==9.9"], ["executorch==9.9"]]


@pytest.mark.parametrize("failure", [HostError("no network"), KeyboardInterrupt()])
def test_a_half_made_one_is_thrown_away(pip: FakePip, failure: BaseException) -> None:
    pip.failure = failure
    with pytest.raises(type(failure)):
        export_environment.export_python(display())
    assert not pip.folder.exists()
    pip.failure = None
    assert export_environment.export_python(display()).exists()


def test_one_without_a_stamp_is_not_taken_for_whole(pip: FakePip) -> None:
    """A power cut leaves the folder like this."""
    python = export_environment.export_python(display())
    (pip.folder / "webpte-stamp").unlink()
    pip.installed.clear()
    shutil.rmtree(python.parent)
    export_environment.export_python(display())
    assert len(pip.installed) == 2


def test_a_full_disk_is_reported(pip: FakePip) -> None:
    pip.failure = OSError(28, "No space left on device")
    with pytest.raises(HostError, match=r"No space left.*\n.*6000\.0 MB free"):
        export_environment.export_python(display())
    assert not pip.folder.exists()


def interpreter(folder: Path, body: str) -> Path:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.skipif(os.name != "posix", reason="the stand-in is a shell script")
def test_the_setting_is_taken_if_it_can_export(
    pip: FakePip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = interpreter(tmp_path, "echo 2.13.0")
    monkeypatch.setenv(export_environment.SETTING, str(python))
    assert export_environment.export_python(display()) == python
    assert not pip.installed


@pytest.mark.skipif(os.name != "posix", reason="the stand-in is a shell script")
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (None, "cannot be run"),
        (f'exec {sys.executable} -S "$@"', "it has no torch, executorch, torchao"),
    ],
)
def test_a_setting_that_cannot_export_is_reported(
    pip: FakePip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str | None, says: str
) -> None:
    python = tmp_path / "nowhere" if body is None else interpreter(tmp_path, body)
    monkeypatch.setenv(export_environment.SETTING, str(python))
    with pytest.raises(HostError, match=says):
        export_environment.export_python(display())
    assert not pip.installed


def test_the_project_can_be_imported_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    variables = export_environment.export_variables(Path("/here"))
    first, second, third = variables["PYTHONPATH"].split(os.pathsep)
    assert Path(first, "webpte_export").is_dir()
    assert (second, third) == (str(Path("/here")), "/mine")
    assert sys.executable
