"""The driver of native tests: installed already, installed now, or missing."""

from __future__ import annotations

import io
import os
import platform
import sys
from pathlib import Path

import pytest

from webpte_host.base.progress import Display
from webpte_host.setup import apt, vulkan


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without drivers; returns the folder where one would be registered."""
    for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(vulkan, "_FOLDERS", (str(tmp_path),))
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


def ensure(
    monkeypatch: pytest.MonkeyPatch,
    installs: bool,
    machine: str = "x86_64",
    backport: bool = False,
) -> tuple[list[str], str]:
    """Return the packages that were requested, and the output."""
    asked: list[str] = []

    def install(_display: Display, package: str, _title: str) -> bool:
        asked.append(package)
        return installs

    def install_backport(*_: object) -> bool:
        asked.append("backport")
        return backport

    monkeypatch.setattr(apt, "install", install)
    monkeypatch.setattr(apt, "install_backport", install_backport)
    monkeypatch.setattr(platform, "machine", lambda: machine)
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


@pytest.mark.parametrize("backport", [True, False])
def test_arm_takes_the_backport_where_there_is_one(
    bare: Path, monkeypatch: pytest.MonkeyPatch, backport: bool
) -> None:
    asked, said = ensure(monkeypatch, True, "aarch64", backport)
    assert asked == (["backport"] if backport else ["backport", "mesa-vulkan-drivers"])
    assert said == ""


ONE_LINE = "deb [arch=arm64 signed-by=/k.gpg] http://a.example/debian bookworm main\n"
BLOCKS = """Types: deb
URIs: http://other.example/node
Suites: nodistro
Components: main

Types: deb
# a comment
URIs: http://b.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /keys/b.gpg
"""


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("sources.list", ONE_LINE, "deb [signed-by=/k.gpg] http://a.example/debian "),
        ("sources.list.d/debian.sources", BLOCKS, "deb [signed-by=/keys/b.gpg] http://b.example/"),
        (
            "sources.list",
            "deb http://c.example/ bookworm main\n",
            "deb http://c.example/ bookworm-",
        ),
        ("sources.list", "deb http://c.example/ trixie main\n", None),
    ],
)
def test_backports_come_from_where_the_release_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, line: str | None
) -> None:
    sources, folder, release = tmp_path / "apt", tmp_path / "parts", tmp_path / "os-release"
    (sources / "sources.list.d").mkdir(parents=True)
    folder.mkdir()
    release.write_text('ID=debian\nVERSION_CODENAME=bookworm\nNAME="x"\n')
    (sources / name).write_text(text)
    (sources / "sources.list.d" / "more.list").write_text("deb http://m.example/ stable main\n")
    monkeypatch.setattr(apt, "_SOURCES", sources)
    monkeypatch.setattr(apt, "_RELEASE", release)
    assert apt.write_backports(folder) == (line and "bookworm-backports")
    written = folder / "webpte-backports.list"
    assert line is None or written.read_text().startswith(line)
    assert line is None or written.read_text().endswith(" bookworm-backports main\n")
    assert (folder / "more.list").exists()  # dependencies from other sources are still found


def test_without_a_release_there_are_no_backports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "_RELEASE", tmp_path / "none")
    assert apt.write_backports(tmp_path) is None


def test_what_is_not_tested_without_one_is_said(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, said = ensure(monkeypatch, False)
    assert asked == ["mesa-vulkan-drivers"]
    assert "tested in the browser" in said
    assert "f16 not at all" in said


def test_nothing_is_installed_without_the_right_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(apt, "run_tool", lambda *_, **__: pytest.fail("it tried"))
    assert apt.install(Display(io.StringIO()), "anything", "Anything") is False
