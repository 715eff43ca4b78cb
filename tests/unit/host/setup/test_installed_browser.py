"""A browser that is installed: the named one, the first that starts, or none."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from webpte_host.base.errors import HostError
from webpte_host.setup.installed_browser import InstalledBrowser

VARIABLE = "WEBPTE_TEST_BROWSER"
BANNER = b"Lynx"


def script(path: Path, says: str, code: int = 0) -> str:
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    path.chmod(0o755)
    return str(path)


def browser(*commands: str, mac: str = "/none") -> InstalledBrowser:
    return InstalledBrowser(VARIABLE, commands, (mac,), BANNER, "a Lynx")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine whose only commands are in a single folder."""
    monkeypatch.delenv(VARIABLE, raising=False)
    found = {path: str(tmp_path / path) for path in ("snap", "broken", "lynx")}
    monkeypatch.setattr(shutil, "which", found.get)
    monkeypatch.setattr(sys, "platform", "linux")
    return monkeypatch


def test_the_first_that_starts_is_taken(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(tmp_path / "snap", "install the snap")
    script(tmp_path / "broken", "Lynx", code=1)
    wanted = script(tmp_path / "lynx", "Lynx 3.1")
    assert browser("absent", "snap", "broken", "lynx").find() == wanted
    assert browser("absent", "snap", "broken").find() is None


def test_the_named_one_is_taken_or_refused(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(tmp_path / "lynx", "Lynx 3.1")
    bare.setenv(VARIABLE, script(tmp_path / "mine", "Lynx 4"))
    assert browser("lynx").find() == str(tmp_path / "mine")
    bare.setenv(VARIABLE, str(tmp_path / "gone"))
    with pytest.raises(HostError, match=r"does not start as a browser\.\nSet .* path of a Lynx"):
        browser("lynx").find()


def test_applications_of_a_mac_are_looked_at_there_only(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    app = script(tmp_path / "app", "Lynx 3.1")
    assert browser(mac=app).find() is None
    bare.setattr(sys, "platform", "darwin")
    assert browser(mac=app).find() == app
