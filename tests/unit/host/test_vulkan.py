"""Which driver native tests get: one that is there, one that may be installed, or none."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from webpte_host import apt, vulkan
from webpte_host.progress import Display


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without drivers; returns where one would say that it is there."""
    for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(vulkan, "_FOLDERS", (str(tmp_path),))
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


def ensure(monkeypatch: pytest.MonkeyPatch, installs: bool) -> tuple[list[str], str]:
    """What was asked to be installed, and what was said."""
    asked: list[str] = []

    def install(_display: Display, package: str, _title: str) -> bool:
        asked.append(package)
        return installs

    monkeypatch.setattr(apt, "install", install)
    said = io.StringIO()
    vulkan.ensure(Display(said))
    return asked, said.getvalue()


def test_a_driver_that_is_there_is_taken(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not vulkan.has_driver()
    (bare / "some_icd.json").write_text("{}")
    assert vulkan.has_driver()
    assert ensure(monkeypatch, True) == ([], "")


@pytest.mark.parametrize("name", ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"])
def test_a_driver_can_be_named(bare: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, str(bare / "mine.json"))
    assert ensure(monkeypatch, True) == ([], "")


def test_lavapipe_is_installed_where_it_may_be(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ensure(monkeypatch, True) == (["mesa-vulkan-drivers"], "")


def test_what_is_not_tested_without_one_is_said(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, said = ensure(monkeypatch, False)
    assert asked == ["mesa-vulkan-drivers"]
    assert "tested in the browser" in said
    assert "half floats nowhere" in said


def test_nothing_is_installed_without_the_right_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(apt, "run_tool", lambda *_, **__: pytest.fail("it tried"))
    assert apt.install(Display(io.StringIO()), "anything", "Anything") is False
