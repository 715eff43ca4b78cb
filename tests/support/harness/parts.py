"""Support for long runs: prints failures at once, times by file, and splits a run into parts.

    python3 serve.py test --adapter hardware --part 1/3

So a run that is stopped half-way has still reported its failures. A part has whole files, since the
tests of a file share a browser.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pytest

_MESSAGE_LINES = 12
_SLOW_FILES = 12
_WORTH_REPORTING = 60  # seconds

# The title of a report's section about the browser of a crashed page.
CRASH_SECTION = "browser of the page that crashed"

File = TypeVar("File", bound=Hashable)


@dataclass(frozen=True)
class Part:
    """One of several parts of a run; the first is 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Part:
        number, slash, count = text.partition("/")
        if not (slash and number.isdecimal() and count.isdecimal()):
            raise pytest.UsageError(f"--part {text}: a part is written as 1/3, the first of three.")
        part = cls(int(number), int(count))
        if not 1 <= part.number <= part.count:
            raise pytest.UsageError(f"--part {text}: the parts are 1/{count} to {count}/{count}.")
        return part


def files_of(part: Part, tests: Sequence[File]) -> set[File]:
    """Return the files of a part, given the file of each test; parts have about equal tests."""
    shares: list[list[File]] = [[] for _ in range(part.count)]
    sizes = [0] * part.count
    # Equal counts stay in the order of the tests, so that all processes of a run agree.
    for file, size in Counter(tests).most_common():
        smallest = sizes.index(min(sizes))
        shares[smallest].append(file)
        sizes[smallest] += size
    return set(shares[part.number - 1])


class FailureReporter:
    """A reporter that prints each failure at once, with the last lines of its message."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)  # after its letter
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        repeated = str(report.outcome) == "rerun"  # pytest-rerunfailures has a special outcome
        if not (report.failed or repeated):
            return
        crash = getattr(report.longrepr, "reprcrash", None)
        message = crash.message if crash else report.longreprtext
        self._terminal.write("\n")  # after the letters of others
        where = "" if report.when == "call" else f" in its {report.when}"
        verdict = "REPEATED" if repeated else "FAILED"
        self._terminal.write_line(f"{verdict}{where}: {report.nodeid}, {report.duration:.1f} s")
        crashes = [text for title, text in report.sections if title == CRASH_SECTION]
        for line in [*message.splitlines()[-_MESSAGE_LINES:], *crashes]:
            self._terminal.write_line(f"    {line}")


class TimeReporter:
    """A reporter of the files that took most of the time of a long run."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal
        self._seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        self._seconds[file] = self._seconds.get(file, 0.0) + report.duration

    def pytest_terminal_summary(self) -> None:
        total = sum(self._seconds.values())
        if total < _WORTH_REPORTING:
            return
        self._terminal.section(f"{total:.0f} s of tests, by file")
        slowest = sorted(self._seconds, key=self._seconds.__getitem__, reverse=True)
        for file in slowest[:_SLOW_FILES]:
            self._terminal.write_line(f"{self._seconds[file]:7.1f} s  {file}")
