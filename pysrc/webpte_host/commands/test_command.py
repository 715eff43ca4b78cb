"""`serve.py test`: linter, formatter, type checker, unit tests, native tests, browser tests."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile

from webpte_host.base.errors import HostError
from webpte_host.base.layout import ROOT
from webpte_host.setup import chromium, environment

_NATIVE = ("tests/native", "tests/unit/gpu/test_native.py", "tests/unit/gpu/test_conformance.py")
_ALL = "--all"
_SITE = ("tests/browser/page/test_site.py", "tests/browser/page/test_modes.py", "tests/site")
_LAST_WORDS_SECONDS = 10
# One process, which would leave the other processors idle: it runs beside the unit tests.
_ASIDE = "mypy"
# A browser that hangs or crashes, once in a great while, is no verdict on a test: it is repeated
# in another page, once. The run says so, for a crash with the browser's processes and their memory.
# Whatever else goes wrong is a failure at once.
_LOST = "PageLostError: no sign of life|(?i:(page|target) crashed)"
_IN_BROWSER = ("--reruns", "1", "--only-rerun", _LOST)

_USAGE = """\
usage: python3 serve.py test [--all | --native | --site | --adapter hardware] [pytest arguments]

Sets up a virtual environment, a Vulkan driver, Chromium and the browser runtime if they are not
there, then runs ruff, mypy and pytest. Arguments go to pytest; with them, only pytest runs:

    python3 serve.py test tests/unit -k server

--all also runs what is left out otherwise: more random cases (schedules, broken files), and in the
browser more of the kernels and suites that run natively in either case:

    python3 serve.py test --all

--native runs the operators' tables and the suites on this machine's GPU, without a browser: the
quickest answer to whether a kernel is right. One file or one case takes seconds:

    python3 serve.py test --native
    python3 serve.py test --native -k softmax

--adapter hardware runs the browser's tests on this machine's GPU, where there is one, instead of on
the CPU (docs/adapters.md says what may differ):

    python3 serve.py test --adapter hardware
    python3 serve.py test --adapter hardware tests/browser/kernels/test_conv.py
    python3 serve.py test --adapter hardware --part 1/3     the first third of them

--site runs what takes too long for every change: notebooks in JupyterLite, and webpte in Node."""


def main(arguments: list[str]) -> int:
    if arguments in (["-h"], ["--help"]):
        print(_USAGE)
        return 0
    if arguments and arguments[0].partition("=")[0] == "--adapter":
        return _on_adapter(*_adapter_of(arguments))
    native, site = (arguments[:1] == [option] for option in ("--native", "--site"))
    rest = arguments[1:]
    python = environment.ensure(
        with_browser=not native, with_driver=native or arguments in ([], [_ALL])
    )
    if native:
        checks = [_native_tests(python, [*_NATIVE, *rest])]
    elif site:
        checks = _checks(python, [*_SITE, *rest])
    else:
        checks = _checks(python, arguments)
    return _conclude(_run_sections(checks))


def _conclude(failed: Sequence[str]) -> int:
    print(f"\n{'FAILED: ' + ', '.join(failed) if failed else 'all checks passed'}", flush=True)
    return 1 if failed else 0


def _adapter_of(arguments: list[str]) -> tuple[str, list[str]]:
    """The adapter that is named first, and the other arguments."""
    first, equals, name = arguments[0].partition("=")
    rest = arguments[1:]
    if not equals and rest:
        name, *rest = rest
    if name not in chromium.ADAPTERS:
        known = " and ".join(chromium.ADAPTERS)
        raise HostError(f"{first} {name}: no adapter is called so; there are {known}.")
    return name, rest


def _on_adapter(adapter: str, arguments: list[str]) -> int:
    """Tests in the browser; nothing is run where it does not have the GPU that was asked for."""
    python = environment.ensure(with_browser=True)
    os.environ[chromium.ADAPTER_VARIABLE] = adapter
    looking = [str(python), "-m", "webpte_host.harness.hardware"]
    if adapter == "hardware" and not _run_section("adapter", looking):
        return _conclude(["adapter"])
    chosen = arguments
    if not any(_is_path(argument) for argument in arguments):
        chosen = [*_by_file(), *_IN_BROWSER, *arguments, "tests/browser"]
    passed = _run_section("browser tests", [str(python), "-m", "pytest", *chosen])
    return _conclude([] if passed else ["browser tests"])


def _is_path(argument: str) -> bool:
    """Whether it names tests; others are options, or what belongs to them."""
    return (ROOT / argument.partition("::")[0]).exists()


def _checks(python: Path, arguments: list[str]) -> list[tuple[str, list[str]]]:
    pytest = [str(python), "-m", "pytest"]
    if arguments and arguments != [_ALL]:  # with more, it is an argument for pytest
        return [("pytest", [*pytest, *arguments])]
    return [
        ("ruff check", [str(python), "-m", "ruff", "check", "."]),
        ("ruff format", [str(python), "-m", "ruff", "format", "--check", "."]),
        ("mypy", [str(python), "-m", "mypy"]),
        # Two runs, so that the quick one reports early. A file stays in one process, which has
        # one browser for all its tests.
        ("unit tests", [*pytest, *_by_file(), *arguments, "tests/unit"]),
        _native_tests(python, [*arguments, "tests/native"]),
        # One more than there are processors: tests in a browser wait for it, now and then.
        ("browser tests", [*pytest, *_by_file(1), *_IN_BROWSER, *arguments, "tests/browser"]),
    ]


def _processes(more: int = 0) -> list[str]:
    return ["-n", str(min(os.cpu_count() or 1, 4) + more)]


def _by_file(more: int = 0) -> list[str]:
    """Files are shared out in the order of tests/conftest.py, where the longest come first."""
    return [*_processes(more), "--dist", "loadfile", "--no-loadscope-reorder", "-q"]


def _native_tests(python: Path, arguments: list[str]) -> tuple[str, list[str]]:
    """Rows are shared out one by one: nothing but compiled kernels is kept from one to the next."""
    command = [str(python), "-m", "pytest", *_processes(), "--dist", "load", "-q"]
    return "native tests", [*command, *arguments]


def _run_sections(sections: Sequence[tuple[str, list[str]]]) -> list[str]:
    """Run one after the other, but what runs beside the next; name those that failed."""
    failed, aside = [], None
    for title, command in sections:
        if title == _ASIDE:
            aside = _Aside(title, command)
            continue
        try:
            if not _run_section(title, command):
                failed.append(title)
            if aside is not None and not aside.tell():
                failed.append(aside.title)
        finally:
            if aside is not None:
                aside.stop()
                aside = None
    return failed


def _run_section(title: str, command: list[str]) -> bool:
    print(f"\n=== {title}", flush=True)
    started = time.monotonic()
    return _tell(title, _run(command), time.monotonic() - started)


def _tell(title: str, code: int, seconds: float) -> bool:
    verdict = "passed" if code == 0 else f"FAILED with exit code {code}"
    print(f"=== {title} {verdict} in {seconds:.1f} s", flush=True)
    return code == 0


class _Aside:
    """A section beside another one, which tells all that it said when that has ended."""

    def __init__(self, title: str, command: list[str]) -> None:
        self.title = title
        self._said = TemporaryFile()  # noqa: SIM115 - stop() closes it
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment.tool_environment(),
            stdout=self._said,
            stderr=subprocess.STDOUT,
        )

    def tell(self) -> bool:
        """Wait for its end; return whether it passed."""
        code = self._process.wait()
        print(f"\n=== {self.title}, beside the section before", flush=True)
        self._said.seek(0)
        print(self._said.read().decode(errors="replace"), end="", flush=True)
        return _tell(self.title, code, time.monotonic() - self._started)

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
        self._said.close()


def _run(command: list[str]) -> int:
    process = subprocess.Popen(command, cwd=ROOT, env=environment.tool_environment())
    try:
        return process.wait()
    except KeyboardInterrupt:
        # Ctrl-C reaches it, too: pytest then tells what has failed so far.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_LAST_WORDS_SECONDS)
        raise
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
