"""The environment of the commands: messages while it is set up, and when that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.harness.streams import Log
from webpte_host.base import pinned_venv
from webpte_host.base.errors import HostError
from webpte_host.base.pinned_venv import PinnedVenv
from webpte_host.base.progress import Display
from webpte_host.setup import environment


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    """Set the environment up in another folder, without pip; returns a log of the messages."""
    monkeypatch.setattr(environment, "VENV", tmp_path / "venv")
    monkeypatch.setattr(environment, "inside", lambda: False)
    monkeypatch.setattr(pinned_venv, "run_tool", lambda *_, **__: None)
    return Log()


def test_it_is_called_webptes_environment(shown: Log) -> None:
    environment._ensure_venv(Display(shown))
    told = shown.getvalue()
    assert told.startswith("Setting up webpte's environment in .webpte/venv (once)")
    assert f"{len(environment.requirements())} packages from PyPI" in told
    assert "test" not in told
    environment._ensure_venv(Display(shown))
    assert shown.getvalue() == told, "it was set up twice"


def test_a_folder_that_cannot_be_written(shown: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(PinnedVenv, "pip_install", refuse)
    with pytest.raises(HostError, match=r"environment could not be written to .*disk full"):
        environment._ensure_venv(Display(shown))
