"""Sections of `serve.py test`: each is reported, in order; a failed section fails the run."""

from __future__ import annotations

import sys

import pytest

from webpte_host.base.errors import HostError
from webpte_host.base.layout import STATE
from webpte_host.commands import test_command


def say(text: str, code: int = 0) -> list[str]:
    return [sys.executable, "-c", f"print({text!r}); raise SystemExit({code})"]


@pytest.mark.parametrize(("code", "failed"), [(0, ["last"]), (2, ["mypy", "last"])])
def test_some_run_beside_others(
    code: int, failed: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    sections: list[test_command._Section] = [
        ("mypy", say("types", code)),
        ("first", say("one")),
        ("set-up", lambda: print("browsers", flush=True)),
        ("unit tests", say("two")),
        ("Firefox tests", say("fox")),
        ("native tests", say("three")),
        ("last", say("four", 1)),
    ]
    assert test_command._run_sections(sections) == failed
    said = capfd.readouterr().out
    order = ("one", "browsers", "two", "types", "=== mypy ", "three", "fox", "four")
    places = [said.index(text) for text in order]
    assert places == sorted(places)
    assert ("mypy FAILED with exit code 2" in said) == (code == 2)


def test_a_failing_set_up_ends_the_run(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise HostError("no browser")

    with pytest.raises(HostError, match="no browser"):
        test_command._run_sections([("set-up", fail), ("unit tests", say("one"))])
    assert "one" not in capfd.readouterr().out


def test_what_has_no_section_after_it_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    assert test_command._run_sections([("mypy", say("types", 1))]) == ["mypy"]
    assert "types" in capfd.readouterr().out


def test_an_interrupt_ends_what_runs_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    asides: list[test_command._BackgroundSection] = []

    def interrupt(title: str, command: list[str]) -> bool:
        raise KeyboardInterrupt

    class Noted(test_command._BackgroundSection):
        def __init__(self, title: str, command: list[str]) -> None:
            super().__init__(title, command)
            asides.append(self)

    monkeypatch.setattr(test_command, "_run_section", interrupt)
    monkeypatch.setattr(test_command, "_BackgroundSection", Noted)
    monkeypatch.setattr(test_command, "_LAST_WORDS_SECONDS", 0.1)
    long = [sys.executable, "-c", "import time; time.sleep(1000)"]
    with pytest.raises(KeyboardInterrupt):
        test_command._run_sections([("mypy", long), ("Firefox tests", long), ("next", say("two"))])
    assert [aside.title for aside in asides] == ["mypy", "Firefox tests"]
    assert all(aside._process.poll() is not None for aside in asides)


def test_compiled_modules_are_shared_and_not_beside_the_sources(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    told = "import sys; print(sys.dont_write_bytecode, sys.pycache_prefix)"
    assert test_command._run_sections([("first", [sys.executable, "-c", told])]) == []
    assert f"False {STATE / 'pycache'}" in capfd.readouterr().out
