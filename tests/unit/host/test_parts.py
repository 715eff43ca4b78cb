"""Long runs: in parts, with failures reported at once, also after an interrupt."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from _pytest.assertion.rewrite import PYC_TAIL

from support.harness import limits
from support.harness.distribute import (
    COLLECTED_LATE,
    SPLIT,
    FilesAndTests,
    is_compiled,
    one_at_a_time,
)
from support.harness.parts import Part, files_of
from webpte_host.base.layout import PYSRC, ROOT

TESTS = [*"aaaaaaa", *"bbbb", *"ccc", *"dd", "e", "f"]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_every_file_is_in_one_part(count: int) -> None:
    parts = [files_of(Part(number, count), TESTS) for number in range(1, count + 1)]
    assert sorted(file for part in parts for file in part) == [*"abcdef"]


def test_parts_have_about_as_many_tests() -> None:
    assert [files_of(Part(n, 3), TESTS) for n in (1, 2, 3)] == [{"a"}, {"b", "e", "f"}, {"c", "d"}]


@pytest.mark.parametrize("text", ["", "1", "0/3", "4/3", "a/b", "1/0", "-1/3"])
def test_parts_that_are_none(text: str) -> None:
    with pytest.raises(pytest.UsageError, match="--part"):
        Part.parse(text)


def test_a_failure_is_reported_before_the_run_ends(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_a.py").write_text("def test_bad():\n    assert 3 == 4, 'as it is meant'\n")
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-q", "-n", "1"]
    command += ["-p", "no:cacheprovider", "--confcutdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    before, _, _ = done.stdout.partition("= FAILURES =")
    assert re.search(
        r"^FAILED: \S*test_a.py::test_bad, [\d.]+ s\n    .*as it is meant", before, re.M
    )


# A shell's background processes ignore Ctrl-C, and so would their children.
PARENT = """
import signal, sys
from webpte_host.commands.test_command import _run
signal.signal(signal.SIGINT, signal.default_int_handler)
_run([sys.executable, "-c", sys.argv[1]])
"""
CHILD = """
import time
try:
    print("running", flush=True)  # from here on it may be interrupted
    time.sleep(600)
except KeyboardInterrupt:
    time.sleep(1)  # as pytest needs time to print the failures
    print("last words", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C goes to a group of processes there")
def test_who_is_interrupted_has_last_words() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD],
        env={**os.environ, "PYTHONPATH": str(PYSRC)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=limits.PROCESS_SECONDS)
    assert said == "last words\n"


def test_compiled_tests_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", None)
    compiled = tmp_path / "__pycache__" / f"test_a{PYC_TAIL}"
    compiled.parent.mkdir()
    assert not is_compiled(tmp_path / "test_a.py")
    compiled.touch()
    assert is_compiled(tmp_path / "test_a.py")
    assert not is_compiled(tmp_path / "test_b.py")


@pytest.mark.skipif(os.name != "posix", reason="there are no such locks")
def test_processes_collect_one_after_the_other() -> None:
    entered = threading.Event()

    def enter() -> None:
        with one_at_a_time():
            entered.set()

    other = threading.Thread(target=enter)
    with one_at_a_time():
        other.start()
        assert not entered.wait(0.05)
    other.join(limits.PROCESS_SECONDS)
    assert entered.is_set()
    assert (ROOT / COLLECTED_LATE).is_file()


def test_files_stay_whole_but_for_those_that_are_split() -> None:
    scheduler = object.__new__(FilesAndTests)
    assert scheduler._split_scope("tests/a.py::test_one[b::c]") == "tests/a.py"
    for file in SPLIT:
        assert (ROOT / file).is_file()
        assert scheduler._split_scope(f"{file}::test_one[2]") == f"{file}::test_one[2]"
