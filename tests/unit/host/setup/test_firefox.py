"""The Firefox of the tests: installed already, installed now, or a sentence why not."""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

import pytest

from webpte_host.base.errors import HostError
from webpte_host.base.progress import Display
from webpte_host.setup import apt, firefox


def browser(folder: Path, says: str) -> str:
    path = folder / "firefox-esr"
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine without Firefox."""
    monkeypatch.delenv(firefox.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr(sys, "platform", "linux")
    return monkeypatch


def test_one_that_starts_is_taken(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv(firefox.ENVIRONMENT_VARIABLE, browser(tmp_path, "Mozilla Firefox 153.7.0esr"))
    assert firefox.find() == str(tmp_path / "firefox-esr")


def test_one_that_is_named_must_start(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv(firefox.ENVIRONMENT_VARIABLE, browser(tmp_path, "install the snap"))
    with pytest.raises(HostError, match="does not start as a browser"):
        firefox.find()


def test_without_one_it_is_said_and_nothing_fails(bare: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def install(_display: Display, package: str, _title: str) -> bool:
        asked.append(package)
        return False

    bare.setattr(apt, "install", install)
    said = io.StringIO()
    firefox.ensure(Display(said))
    assert asked == ["firefox-esr"]
    assert "nothing is tested in Firefox" in said.getvalue()


def test_preferences_turn_webgpu_on(tmp_path: Path) -> None:
    firefox.write_preferences(tmp_path)
    written = (tmp_path / "user.js").read_text()
    assert 'user_pref("dom.webgpu.enabled", true);\n' in written
