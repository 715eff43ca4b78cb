"""`serve.py test` with paths: it runs only these tests, and sets up only their needs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from webpte_host.commands import test_command
from webpte_host.setup import cluster_environment, environment

UNIT = "tests/unit/host/test_cli.py"
NATIVE = "tests/native/test_tables.py"
BROWSER = "tests/browser/kernels/test_tables.py"
CLUSTER = "tests/cluster/test_ray_data.py"
CLUSTER_PYTHON = "python-with-ray"


class Recorded:
    """The sections that `serve.py test` would run, and the parts that it would set up for them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths: list[str] = []
        self.set_up: dict[str, bool] = {}
        self.of_cluster: list[str] = []
        self.everything = False

        def run(_title: str, command: list[str]) -> bool:
            paths = [word for word in command if word.startswith("tests/")]
            self.paths += paths
            self.everything |= "--all" in command
            self.of_cluster += paths if command[0] == CLUSTER_PYTHON else []
            return True

        def ensure(**options: Any) -> Path:
            self.set_up = options
            return Path("python")

        class Aside:
            def __init__(self, title: str, command: list[str]) -> None:
                self.title = title
                run(title, command)

            def tell(self) -> bool:
                return True

            def stop(self) -> None:
                pass

        monkeypatch.setattr(test_command, "_run_section", run)
        monkeypatch.setattr(test_command, "_BackgroundSection", Aside)
        monkeypatch.setattr(environment, "ensure", ensure)
        monkeypatch.setattr(cluster_environment, "ensure", lambda: Path(CLUSTER_PYTHON))


@pytest.mark.parametrize("option", ["--native", "--site"])
def test_a_named_file_runs_alone(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(monkeypatch)
    assert test_command.main([option, f"{NATIVE}::test_row", "-x"]) == 0
    assert recorded.paths == [f"{NATIVE}::test_row"]


LONG = " or ".join(["softmax"] * 99)  # too long for the name of a file


@pytest.mark.parametrize(
    "options",
    [[], ["-k", "docs"], ["-k", LONG], ["--ignore", NATIVE], ["--deselect", UNIT]],
)
def test_options_alone_leave_all_native_tests(
    options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded(monkeypatch)
    assert test_command.main(["--native", *options]) == 0
    assert set(test_command._NATIVE) <= set(recorded.paths)


@pytest.mark.parametrize(
    ("options", "whole"), [([], False), (["-k", "exp2"], True), ([NATIVE], True), (["--all"], True)]
)
def test_native_tests_that_are_chosen_run_with_all_their_cases(
    options: list[str], whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded(monkeypatch)
    assert test_command.main(["--native", *options]) == 0
    assert recorded.everything == whole


@pytest.mark.parametrize(
    ("arguments", "browser"),
    [
        ([UNIT], False),
        (["tests/unit", "-k", "server"], False),
        (["--all", "tests/unit/docs", f"{UNIT}::test_unknown_command"], False),
        ([NATIVE], False),
        ([CLUSTER], False),
        (["--native"], False),
        (["--native", "-k", "web"], False),
        (["--native", NATIVE], False),
        ([BROWSER], True),
        ([UNIT, BROWSER], True),
        (["tests"], True),
        (["-k", "server"], True),  # of all tests
        (["--ignore", UNIT], True),
        (["--site", "tests/site"], True),
        (["--site"], True),
        (["--all"], True),
        ([], True),
    ],
)
def test_a_browser_is_set_up_for_tests_that_need_one(
    arguments: list[str], browser: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded(monkeypatch)
    test_command.main(arguments)
    assert recorded.set_up["with_browser"] is browser


@pytest.mark.parametrize("arguments", [[UNIT], ["tests/unit/docs"]])
def test_unit_tests_need_the_virtual_environment_alone(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded(monkeypatch)
    test_command.main(arguments)
    assert not any(recorded.set_up.values())


@pytest.mark.parametrize(
    ("arguments", "firefox"),
    [([], True), (["--all"], True), (["tests/firefox"], True), ([BROWSER], False), ([UNIT], False)],
)
def test_firefox_is_set_up_for_its_tests(
    arguments: list[str], firefox: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded(monkeypatch)
    test_command.main(arguments)
    assert recorded.set_up["with_firefox"] == firefox
    assert ("tests/firefox" in recorded.paths) == firefox
    if "tests/native" in recorded.paths:  # they run beside these, which leave processors idle
        assert recorded.paths.index("tests/firefox") + 1 == recorded.paths.index("tests/native")


@pytest.mark.parametrize(
    ("arguments", "platform", "found"),
    [
        ([], "linux", []),
        (["--all"], "linux", ["tests/cluster"]),
        (["--all"], "darwin", []),
        ([CLUSTER, "-x"], "linux", [CLUSTER]),
        (["--all", "tests/cluster"], "linux", ["tests/cluster"]),
        ([UNIT, CLUSTER], "linux", []),
    ],
)
def test_tests_on_a_cluster_have_an_environment_of_their_own(
    arguments: list[str], platform: str, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded(monkeypatch)
    monkeypatch.setattr(sys, "platform", platform)
    test_command.main(arguments)
    assert recorded.of_cluster == found
    if found:
        assert recorded.set_up["with_driver"]


def test_the_environment_of_a_cluster_has_the_pins_of_all_tests() -> None:
    pinned = cluster_environment.packages()
    assert set(pinned[:-1]) < set(environment.requirements())
    assert pinned[-1].startswith("ray[")
    assert all("==" in one for one in pinned)
