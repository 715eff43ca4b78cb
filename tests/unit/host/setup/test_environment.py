"""The environment of the commands: messages while it is set up, and when that fails."""

from __future__ import annotations

import time
from contextlib import nullcontext
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


@pytest.mark.parametrize("failing", [False, True])
def test_the_runtime_is_set_up_while_pip_runs(
    failing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "serve.py").write_text(
        "import pathlib, time\n"
        "pathlib.Path('begun').touch()\n"
        "while not pathlib.Path('pip').exists(): time.sleep(0.01)\n"
        "pathlib.Path('ended').touch()\n"
    )
    for name, place in {"ROOT": "", "VENV": "venv", "RUNTIME": "runtime"}.items():
        monkeypatch.setattr(environment, name, tmp_path / place)
    monkeypatch.setattr(environment, "inside", lambda: False)
    monkeypatch.setattr(environment, "requirements", list)

    def pip(_display: Display) -> None:
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        if failing:
            raise HostError("no network")
        (tmp_path / "pip").touch()

    monkeypatch.setattr(environment, "_ensure_venv", pip)
    monkeypatch.setattr(environment, "ensure_runtime", lambda _display: (tmp_path / "used").touch())
    with pytest.raises(HostError, match="no network") if failing else nullcontext():
        environment.ensure(with_browser=False, with_runtime=True)
    done = [name for name in ("ended", "used") if (tmp_path / name).exists()]
    assert done == ([] if failing else ["ended", "used"])


def test_an_environment_shared_by_a_link_is_not_made_again(tmp_path: Path) -> None:
    mine = PinnedVenv(tmp_path / "mine" / "venv", "An environment", ("numpy==2.4.6",), 1)
    mine.folder.mkdir(parents=True)
    (tmp_path / "other").symlink_to(tmp_path / "mine")
    linked = PinnedVenv(tmp_path / "other" / "venv", "An environment", ("numpy==2.4.6",), 1)
    mine.python.parent.mkdir()
    mine.python.touch()
    (mine.folder / "webpte-stamp").write_text(mine._stamp(), "utf-8")
    assert linked.is_ready()
