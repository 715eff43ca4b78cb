"""`serve.py test`: linter, formatter, type checker, and tests: unit, native, in two browsers."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile

from webpte_host.base.errors import HostError
from webpte_host.base.layout import ROOT, STATE
from webpte_host.commands import near
from webpte_host.setup import chromium, cluster_environment, environment

_NATIVE = (
    "tests/native",
    "tests/unit/engine/gpu/test_native.py",
    "tests/unit/engine/gpu/test_conformance.py",
)
_ALL, _NEAR = "--all", "--near"
_SITE = ("tests/browser/page/test_site.py", "tests/browser/page/test_modes.py", "tests/site")
_FIREFOX = "tests/firefox"
_CLUSTER = "tests/cluster"  # in a separate environment
_WITHOUT_BROWSER = ("tests/unit", "tests/native", _CLUSTER)
_LEFT_OUT_OPTIONS = ("--ignore", "--deselect")  # also name tests: those to leave out
_LAST_WORDS_SECONDS = 10
_COMPILED = STATE / "pycache"
# Sections with a single process, which leaves processors idle: each runs in parallel with the
# sections after it, up to the named section, or to the last.
_ASIDE = {"mypy": "unit tests", "Firefox tests": "native tests"}
_SET_UP = "drivers and browsers"
# A browser hangs or crashes on rare occasions, independently of the test: that test runs again in
# another page. The run reports it, a crash with the browser's processes and their memory. Every
# other error is a failure at once.
_LOST = "PageLostError: no progress and no CPU activity|(?i:(page|target) crashed)"
_IN_BROWSER = ("--reruns", "1", "--only-rerun", _LOST)

# A title, and a command, or a function that sets up drivers or browsers.
_Section = tuple[str, list[str] | Callable[[], object]]

_USAGE = """\
usage: python3 serve.py test [--near | --all | --native | --site | --adapter hardware]
                             [pytest arguments]

Sets up a virtual environment, a Vulkan driver, Chromium, Firefox and the browser runtime if they
are missing, then runs ruff, mypy and pytest. Arguments go to pytest; with them, only pytest runs.
Unit tests need only the virtual environment:

    python3 serve.py test tests/unit -k server

--near runs ruff, mypy and the tests nearest to what changed since the last commit in common with
the main branch (there: since HEAD, or in the last commit). It prints which tests, and why: those of
the same place and name, of the same operators or view of the page, and up to 50 files of tests that
import what changed, the nearest first. Run it often, and all tests before you push:

    python3 serve.py test --near

--all also runs the tests that are left out by default: more random cases (schedules, broken files),
in browsers what native and unit tests check, too (kernels, programs, details of the page), and, on
Linux, a cluster of Ray on this machine, which an environment of its own is set up for. A file of
which nothing runs by default runs whole when it is named. docs/inside/testing.md has a list:

    python3 serve.py test --all
    python3 serve.py test tests/cluster       the cluster alone

--native runs the operators' tables and the suites on this machine's GPU, without a browser. This
is the fastest check of a kernel. With a name or a file it runs all cases of that, in seconds; alone
a share of all, with --all every one:

    python3 serve.py test --native
    python3 serve.py test --native -k softmax
    python3 serve.py test --native tests/native/test_matrices.py

--adapter hardware runs the browser tests on this machine's GPU, if it has one, instead of on the
CPU (docs/inside/adapters.md lists what may differ):

    python3 serve.py test --adapter hardware
    python3 serve.py test --adapter hardware tests/browser/kernels/test_tables.py
    python3 serve.py test --adapter hardware --part 1/3     the first third of them

A part of the browser tests runs in Firefox, too, where it can be installed; alone:

    python3 serve.py test tests/firefox

--site runs tests that are too slow for every change: the built site, notebooks in JupyterLite, and
webpte in Node."""


def main(arguments: list[str]) -> int:
    if arguments in (["-h"], ["--help"]):
        print(_USAGE)
        return 0
    if arguments and arguments[0].partition("=")[0] == "--adapter":
        return _on_adapter(*_adapter_of(arguments))
    if arguments[:1] == [_NEAR]:
        return _conclude(_run_sections(_near_checks(arguments[1:])))
    native, site = (arguments[:1] == [option] for option in ("--native", "--site"))
    rest = arguments[1:]
    chosen = _paths(arguments)
    everything = arguments in ([], [_ALL])
    on_cluster = bool(chosen) and all(_is_in(path, _CLUSTER) for path in chosen) and not native
    if everything:
        python = environment.ensure(with_browser=False, with_runtime=True)
    else:
        python = environment.ensure(
            with_browser=_need_browser(chosen or (_NATIVE if native else _SITE)),
            with_driver=native or on_cluster,
            with_firefox=_FIREFOX in chosen,
        )
    if on_cluster:
        checks = [_cluster_tests(arguments)]
    elif native:
        # Tests named by a mark or file run completely, not only a usual run's share.
        whole = [_ALL] if rest and _ALL not in rest else []
        checks = [_native_tests(python, [*whole, *(rest if chosen else [*_NATIVE, *rest])])]
    elif site:
        checks = _checks(python, rest if chosen else [*_SITE, *rest])
    else:
        checks = _checks(python, arguments)
        if arguments == [_ALL] and sys.platform == "linux":
            checks.append(_cluster_tests([_ALL, _CLUSTER]))
    return _conclude(_run_sections(checks))


def _conclude(failed: Sequence[str]) -> int:
    print(f"\n{'FAILED: ' + ', '.join(failed) if failed else 'all checks passed'}", flush=True)
    return 1 if failed else 0


def _adapter_of(arguments: list[str]) -> tuple[str, list[str]]:
    """Return the adapter in the first argument, and the other arguments."""
    first, equals, name = arguments[0].partition("=")
    rest = arguments[1:]
    if not equals and rest:
        name, *rest = rest
    if name not in chromium.ADAPTERS:
        known = " and ".join(chromium.ADAPTERS)
        raise HostError(f"{first} {name}: there is no such adapter; there are {known}.")
    return name, rest


def _on_adapter(adapter: str, arguments: list[str]) -> int:
    """Run browser tests on an adapter; runs none if the browser lacks the requested GPU."""
    python = environment.ensure(with_browser=True)
    os.environ[chromium.ADAPTER_VARIABLE] = adapter
    looking = [str(python), "-m", "webpte_host.harness.hardware"]
    if adapter == "hardware" and not _run_section("adapter", looking):
        return _conclude(["adapter"])
    chosen = arguments
    if not _paths(arguments):
        chosen = [*_by_file(), *_IN_BROWSER, *arguments, "tests/browser"]
    passed = _run_section("browser tests", [str(python), "-m", "pytest", *chosen])
    return _conclude([] if passed else ["browser tests"])


def _paths(arguments: list[str]) -> list[str]:
    """Return the arguments that name tests; the others are options and their values."""
    previous = ["", *arguments]
    return [
        argument
        for before, argument in zip(previous, arguments, strict=False)
        if before not in _LEFT_OUT_OPTIONS
        and _path(argument).is_relative_to(ROOT / "tests")
        and _path(argument).exists()
    ]


def _path(argument: str) -> Path:
    return (ROOT / argument.partition("::")[0]).resolve()


def _need_browser(paths: Sequence[str]) -> bool:
    """Return whether any of these tests lies outside of the folders that need no browser."""
    return not all(any(_is_in(path, folder) for folder in _WITHOUT_BROWSER) for path in paths)


def _is_in(path: str, folder: str) -> bool:
    return _path(path).is_relative_to(ROOT / folder)


def _checks(python: Path, arguments: list[str]) -> list[_Section]:
    pytest = [str(python), "-m", "pytest"]
    if arguments and arguments != [_ALL]:  # with more arguments, the first is for pytest
        return [("pytest", [*pytest, *arguments])]
    set_up = partial(environment.ensure, with_browser=True, with_driver=True, with_firefox=True)
    return [
        *_code_checks(python),
        (_SET_UP, set_up),
        # Two runs, so that the quick tests report early. A file stays in a single process, with a
        # browser for all its tests.
        ("unit tests", [*pytest, *_by_file(), *arguments, "tests/unit"]),
        # A single process: all tests share a Firefox.
        ("Firefox tests", [*pytest, "-q", *_IN_BROWSER, *arguments, _FIREFOX]),
        _native_tests(python, [*arguments, "tests/native"], by_file=not arguments),
        # More processes than processors by one: tests in a browser wait for it, now and then.
        ("browser tests", [*pytest, *_by_file(1), *_IN_BROWSER, *arguments, "tests/browser"]),
    ]


def _code_checks(python: Path) -> list[_Section]:
    return [
        ("mypy", [str(python), "-m", "mypy"]),
        ("ruff check", [str(python), "-m", "ruff", "check", "."]),
        ("ruff format", [str(python), "-m", "ruff", "format", "--check", "."]),
    ]


def _near_checks(options: list[str]) -> list[_Section]:
    """Choose the tests near the change, print why, and return their sections."""
    base, changed = near.changed_files(ROOT)
    found = near.choose(ROOT, changed)
    print(f"{len(changed)} files differ from {base}. Near them:", flush=True)
    print("\n".join(f"    {line}" for line in found.lines()), flush=True)
    unit, native, browser, firefox = map(found.files, ("unit", "native", "browser", "firefox"))
    set_up = partial(
        environment.ensure,
        with_browser=bool(browser or firefox),
        with_driver=bool(native or found.tables),
        with_firefox=bool(firefox),
    )
    python = environment.ensure(with_browser=False, with_runtime=bool(browser or firefox))
    pytest = [str(python), "-m", "pytest"]
    rows = " or ".join(f"{name}-" for name in sorted(found.tables))
    sections = [
        (unit, ("unit tests", [*pytest, *_by_file(), *options, *unit])),
        (native, _native_tests(python, [*options, *native])),
        (rows, _native_tests(python, [*options, "tests/native/test_tables.py", "-k", rows])),
        (browser, ("browser tests", [*pytest, *_by_file(1), *_IN_BROWSER, *options, *browser])),
        (firefox, ("Firefox tests", [*pytest, "-q", *_IN_BROWSER, *options, *firefox])),
    ]
    chosen = [section for wanted, section in sections if wanted]
    return [*_code_checks(python), (_SET_UP, set_up), *chosen]


def _processes(more: int = 0) -> list[str]:
    return ["-n", str(min(os.cpu_count() or 1, 4) + more)]


def _by_file(more: int = 0) -> list[str]:
    """Return the options to distribute whole files, in the order of tests/conftest.py."""
    return [*_processes(more), "--dist", "loadfile", "--no-loadscope-reorder", "-q"]


def _native_tests(python: Path, arguments: list[str], by_file: bool = False) -> _Section:
    """Return the section of native tests, which share only compiled kernels.

    Single tests are distributed, so that a few files keep all processors busy, or whole files, so
    that fewer kernels are compiled twice.
    """
    spread = _by_file() if by_file else [*_processes(), "--dist", "load", "-q"]
    return "native tests", [str(python), "-m", "pytest", *spread, *arguments]


def _cluster_tests(arguments: list[str]) -> _Section:
    """Return the section of tests on a cluster: a single process, which starts others."""
    python = cluster_environment.ensure()
    return "cluster tests", [str(python), "-m", "pytest", "-q", *arguments]


def _run_sections(sections: Sequence[_Section]) -> list[str]:
    """Run sections in order (some overlap the next); return the failed sections."""
    failed: list[str] = []
    asides: list[_BackgroundSection] = []
    try:
        for title, work in sections:
            if callable(work):
                work()
            elif title in _ASIDE:
                asides.append(_BackgroundSection(title, work))
            elif not _run_section(title, work):
                failed.append(title)
            if title in _ASIDE.values():
                failed += _end(asides)
        failed += _end(asides)
    finally:
        for aside in asides:
            aside.stop()
    return failed


def _end(asides: list[_BackgroundSection]) -> list[str]:
    """Wait for the background sections in the list, in order; return the failed sections."""
    failed = []
    while asides:
        if not asides[0].tell():
            failed.append(asides[0].title)
        asides.pop(0).stop()
    return failed


def _run_section(title: str, command: list[str]) -> bool:
    print(f"\n=== {title}", flush=True)
    started = time.monotonic()
    return _tell(title, _run(command), time.monotonic() - started)


def _tell(title: str, code: int, seconds: float) -> bool:
    verdict = "passed" if code == 0 else f"FAILED with exit code {code}"
    print(f"=== {title} {verdict} in {seconds:.1f} s", flush=True)
    return code == 0


class _BackgroundSection:
    """A section in the background, which prints its whole output when it has ended."""

    def __init__(self, title: str, command: list[str]) -> None:
        self.title = title
        self._said = TemporaryFile()  # noqa: SIM115 - stop() closes it
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=_variables(),
            stdout=self._said,
            stderr=subprocess.STDOUT,
        )

    def tell(self) -> bool:
        """Wait for the end, and print the output; return whether the section passed."""
        code = self._process.wait()
        print(f"\n=== {self.title}, beside other sections", flush=True)
        self._said.seek(0)
        print(self._said.read().decode(errors="replace"), end="", flush=True)
        return _tell(self.title, code, time.monotonic() - self._started)

    def stop(self) -> None:
        """End the section; after Ctrl-C, its process gets time to close its browser."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_WORDS_SECONDS)
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
        self._said.close()


def _variables() -> dict[str, str]:
    """Return the variables of a section, whose processes share compiled modules.

    Tests run in several processes, section by section: without the shared modules, each process
    would compile all modules, and rewrite the assertions of all tests. No files are written next to
    the sources.
    """
    variables = {**environment.tool_environment(), "PYTHONPYCACHEPREFIX": str(_COMPILED)}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    return variables


def _run(command: list[str]) -> int:
    process = subprocess.Popen(command, cwd=ROOT, env=_variables())
    try:
        return process.wait()
    except KeyboardInterrupt:
        # Ctrl-C reaches pytest, too, which then reports the failures so far.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_LAST_WORDS_SECONDS)
        raise
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
