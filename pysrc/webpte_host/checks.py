"""`serve.py test`: linter, formatter, type checker, unit tests, native tests, browser tests."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from webpte_host import environment
from webpte_host.layout import ROOT

_NATIVE = ("tests/native", "tests/unit/gpu/test_native.py", "tests/unit/gpu/test_conformance.py")

_USAGE = """\
usage: python3 serve.py test [--native] [pytest arguments]

Sets up a virtual environment, a Vulkan driver, Chromium and the browser runtime if they are not
there, then runs ruff, mypy and pytest. Arguments go to pytest; with them, only pytest runs:

    python3 serve.py test tests/unit -k server

--native runs the operators' tables and the suites on this machine's GPU, without a browser: the
quickest answer to whether a kernel is right. One file or one case takes seconds:

    python3 serve.py test --native
    python3 serve.py test --native -k softmax"""


def main(arguments: list[str]) -> int:
    if arguments in (["-h"], ["--help"]):
        print(_USAGE)
        return 0
    native, rest = arguments[:1] == ["--native"], arguments[1:]
    python = environment.ensure(with_browser=not native, with_driver=native or not arguments)
    checks = [_native_tests(python, [*_NATIVE, *rest])] if native else _checks(python, arguments)
    failed = [title for title, command in checks if not _run_section(title, command)]
    print(f"\n{'FAILED: ' + ', '.join(failed) if failed else 'all checks passed'}", flush=True)
    return 1 if failed else 0


def _checks(python: Path, arguments: list[str]) -> list[tuple[str, list[str]]]:
    pytest = [str(python), "-m", "pytest"]
    if arguments:
        return [("pytest", [*pytest, *arguments])]
    parallel = [*_processes(), "--dist", "loadfile", "-q"]
    return [
        ("ruff check", [str(python), "-m", "ruff", "check", "."]),
        ("ruff format", [str(python), "-m", "ruff", "format", "--check", "."]),
        ("mypy", [str(python), "-m", "mypy"]),
        # Two runs, so that the quick one reports early. A file stays in one process, which has
        # one browser for all its tests.
        ("unit tests", [*pytest, *parallel, "tests/unit"]),
        _native_tests(python, ["tests/native"]),
        ("browser tests", [*pytest, *parallel, "tests/browser"]),
    ]


def _processes() -> list[str]:
    return ["-n", str(min(os.cpu_count() or 1, 4))]


def _native_tests(python: Path, arguments: list[str]) -> tuple[str, list[str]]:
    """Rows are shared out one by one: nothing but compiled kernels is kept from one to the next."""
    command = [str(python), "-m", "pytest", *_processes(), "--dist", "load", "-q"]
    return "native tests", [*command, *arguments]


def _run_section(title: str, command: list[str]) -> bool:
    print(f"\n=== {title}", flush=True)
    started = time.monotonic()
    code = subprocess.run(
        command, cwd=ROOT, env=environment.tool_environment(), check=False
    ).returncode
    verdict = "passed" if code == 0 else f"FAILED with exit code {code}"
    print(f"=== {title} {verdict} in {time.monotonic() - started:.1f} s", flush=True)
    return code == 0
