"""`--adapter hardware`: a GPU or an error message, and the variable that tests get."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from webpte_host.base.errors import HostError
from webpte_host.base.layout import ROOT
from webpte_host.commands import test_command
from webpte_host.harness.hardware import check_hardware
from webpte_host.setup import chromium, environment

NVIDIA = {"vendor": "nvidia", "architecture": "hopper", "description": "NVIDIA H200"}
SWIFTSHADER = {"vendor": "google", "architecture": "swiftshader", "description": ""}


def test_a_gpu_is_named() -> None:
    assert check_hardware(NVIDIA) == "nvidia hopper NVIDIA H200"


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        (None, "Chromium finds no GPU here.\nOn Linux it needs"),
        (SWIFTSHADER, "finds no GPU here, only google swiftshader, which is a CPU"),
        ({**NVIDIA, "description": "llvmpipe (LLVM 15)"}, "only nvidia hopper llvmpipe"),
    ],
)
def test_no_gpu_is_a_sentence(adapter: dict[str, str] | None, message: str) -> None:
    with pytest.raises(HostError) as caught:
        check_hardware(adapter)
    assert message in str(caught.value)


class Sections:
    """The sections that `test` would run, one of which may fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failing: str = "") -> None:
        self.ran: list[tuple[str, list[str], str | None]] = []

        def run(title: str, command: list[str]) -> bool:
            self.ran.append((title, command[2:], os.environ.get(chromium.ADAPTER_VARIABLE)))
            return title != failing

        monkeypatch.setenv(chromium.ADAPTER_VARIABLE, "")  # so that it is put back
        monkeypatch.setattr(test_command, "_run_section", run)
        monkeypatch.setattr(environment, "ensure", lambda **_: Path("python"))


@pytest.mark.parametrize("given", [["--adapter", "hardware"], ["--adapter=hardware"]])
def test_browser_tests_run_on_the_gpu(given: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    sections = Sections(monkeypatch)
    assert test_command.main([*given, "tests/browser/kernels/test_tables.py", "-x"]) == 0
    assert sections.ran == [
        ("adapter", ["webpte_host.harness.hardware"], "hardware"),
        ("browser tests", ["pytest", "tests/browser/kernels/test_tables.py", "-x"], "hardware"),
    ]
    assert chromium.chosen_adapter() == "hardware"
    assert chromium.launch_options("hardware")["ignore_default_args"]


def test_all_browser_tests_unless_some_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    sections = Sections(monkeypatch)
    assert test_command.main(["--adapter", "swiftshader"]) == 0
    ((title, command, adapter),) = sections.ran  # there is no GPU to look for
    assert (title, command[-1], adapter) == ("browser tests", "tests/browser", "swiftshader")


def test_options_alone_are_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    sections = Sections(monkeypatch)
    assert (
        test_command.main(["--adapter", "swiftshader", "--part", "1/3", "--junitxml=out.xml"]) == 0
    )
    ((_, command, _),) = sections.ran
    assert command[-4:] == ["--part", "1/3", "--junitxml=out.xml", "tests/browser"]


def test_every_browser_is_for_the_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium, "find", lambda: "chromium")
    monkeypatch.setenv(chromium.ADAPTER_VARIABLE, "hardware")
    flags = chromium.launch_options(None, "--use-fake-device-for-media-stream")["args"]
    assert {"--ignore-gpu-blocklist", "--use-fake-device-for-media-stream"} <= set(flags)
    assert not any("swiftshader" in flag for flag in flags)
    without = chromium.launch_options(chromium.NO_ADAPTER)["args"]
    assert not any("webgpu" in flag or "vulkan" in flag for flag in without)


def test_only_one_function_starts_browsers() -> None:
    """A call of `launch` with its own flags would ignore the adapter."""
    browser_tests = (ROOT / "tests" / "browser").rglob("*.py")
    for path in (*browser_tests, *(ROOT / "tests" / "site").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert "chromium.flags(" not in text, path
        launches = re.findall(r"\.launch\(\s*(\S*)", text)
        assert all(
            first.startswith(("**options", "**chromium.launch_options(")) for first in launches
        ), path


def test_nothing_runs_without_the_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sections = Sections(monkeypatch, failing="adapter")
    assert test_command.main(["--adapter", "hardware"]) == 1
    assert [title for title, *_ in sections.ran] == ["adapter"]
    assert capsys.readouterr().out.endswith("FAILED: adapter\n")


@pytest.mark.parametrize("given", [["--adapter"], ["--adapter", "abacus"], ["--adapter=abacus"]])
def test_adapters_that_are_not_there(given: list[str]) -> None:
    with pytest.raises(HostError, match="there are swiftshader and hardware"):
        test_command.main(given)
