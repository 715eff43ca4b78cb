"""`serve.py verify`: runs every program of a suite and compares its outputs.

On device `webgpu` the programs run in headless Chromium, or Firefox, all in the same page. A case
fails after `--timeout` seconds with neither progress nor CPU activity, or if its page crashes; then
later cases run in a new page. On the devices `native` (the GPU, without a browser) and `numpy` the
programs run in this process. With `--options` every case also runs once per variant, and a table at
the end compares the variants. A suite is a folder with a manifest, its zip, or a folder of such
zips. A bundled program (`.bpte`) also counts as a suite, with its cases.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fnmatch
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from webpte_host.base.descriptions import described
from webpte_host.base.device_names import NATIVE_HELP, device_name
from webpte_host.base.errors import HostError, PageLostError, PagePythonError
from webpte_host.base.write_results import write_results
from webpte_host.commands import variant_table
from webpte_host.commands.suites import check_suite, opened_suite
from webpte_host.harness.hardware import check_hardware
from webpte_host.harness.report import Report, describe
from webpte_host.harness.watchdog import BUSY_FACTOR
from webpte_host.serving.routing import Mount
from webpte_host.setup import chromium, environment

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from webpte_export.suites.variants import VariantRuns
    from webpte_host.harness.browser import Harness

Show = Callable[[str], None]  # called with a description of a case's progress
Variant = dict[str, Any]  # a `webpte_export.suites.variants.Variant` as JSON

BROWSERS = ("chromium", "firefox")  # the default first
_PREFIX = "/suite/"
NO_COMPARISON = {"difference": None, "other_kernels": None}  # result for a case whose page was lost

_NO_ADAPTER = """this Chromium offers no WebGPU adapter.
It must be a full Chromium or Chrome (not a headless shell) of version 113 or newer. Set
WEBPTE_CHROMIUM to the path of one, or verify without a browser: --device numpy"""

# Runs in the page. Paths are quoted because a suite's file names may have any characters.
_IN_PAGE = """
from urllib.parse import quote
import js
from pyodide.http import pyfetch
from webpte_export.suites.variants import VariantRuns
from webpte_export.suites.suite import run_entry

def locate(path):
    return str(js.location.origin) + prefix + quote(path)

async def fetch_bytes(path):
    reply = await pyfetch(locate(path))
    if not reply.ok:
        raise FileNotFoundError(f"{path} is not in the suite")
    return await reply.bytes()

how = {"locate": locate, "progress": report_progress}
if variant is None:
    return await run_entry(entry, fetch_bytes, "webgpu", **how)
global variant_runs
# The default variant's outputs are kept for the next variants, which may run in a new page.
if variant["label"] == "as chosen" or "variant_runs" not in globals():
    variant_runs = VariantRuns(fetch_bytes, "webgpu", **how)
return await variant_runs.run(entry, variant)
"""

_FIND_VARIANTS = """
from webpte_export.suites.variants import described_variants

return await described_variants(requested, "webgpu")
"""


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    check_suite(options.suite)
    if not environment.inside():
        with_browser = options.device == "webgpu"
        return environment.rerun_inside(["verify", *arguments], with_browser=with_browser)
    with opened_suite(options.suite) as (manifest, options.suite):
        return verify(options, manifest)


def verify(options: argparse.Namespace, manifest: list[Any]) -> int:
    """Run the chosen entries of a manifest; returns the exit code."""
    entries = select(check_entries(manifest, options.suite), options.filter)
    with _runner(options) as runner:
        variants = runner.variants(options.options) if options.options else []
        there: list[Variant | None] = [one for one in variants if not one["missing"]] or [None]
        with Report(len(entries) * len(there)) as report:
            for entry in entries:
                for variant in there:
                    report.begin(case_id(entry))
                    report.add(runner.run(entry, report.show, variant))
    if options.json is not None:
        write_results(options.json, report.results)
    if variants:
        variant_table.show(variants, report.results)
    print(f"{report.passed} passed, {report.failed} failed", flush=True)
    return 1 if report.failed else 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="serve.py verify", description=described(__doc__))
    suites = "a folder with a manifest.json, a .zip of one, a folder of such zips, or a .bpte"
    parser.add_argument("suite", type=Path, help=suites)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--filter", help="only cases that match, such as 'add*' or 'llama*'")
    parser.add_argument(
        "--device",
        type=device_name("webgpu", "native", "numpy"),
        default="webgpu",
        help=f"webgpu, native or numpy; {NATIVE_HELP} (%(default)s)",
    )
    parser.add_argument(
        "--adapter",
        choices=chromium.ADAPTERS,
        help="swiftshader (default): WebGPU on the CPU; hardware: WebGPU on this machine's GPU",
    )
    parser.add_argument(
        "--browser",
        choices=BROWSERS,
        default=BROWSERS[0],
        help="the browser of the device webgpu (%(default)s)",
    )
    parser.add_argument(
        "--options",
        type=variant_table.names_of,
        nargs="?",
        const=("all",),
        default=(),
        metavar="VARIANTS",
        help="also run every case with each of these settings inverted: fuse, f16, "
        "subgroup_matrices, plain, tuning (separated by commas; a+b inverts both at once), or "
        "all, the default; a table compares the variants",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=120.0,
        metavar="SECONDS",
        help="on webgpu, a case fails after this time with neither progress nor CPU activity, and "
        f"after {BUSY_FACTOR} times as long without progress (%(default)g)",
    )
    options = parser.parse_args(arguments)
    if options.options and options.device == "numpy":
        parser.error("--options is for GPUs: NumPy has no variants")
    if options.browser != BROWSERS[0] and (options.adapter or options.device != "webgpu"):
        parser.error("--browser firefox goes with neither --adapter nor another device")
    return options


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return seconds


def check_entries(entries: list[Any], suite: Path) -> list[dict[str, Any]]:
    from webpte_export.suites.suite import SuiteError, parse_entry

    for number, entry in enumerate(entries):
        try:
            parse_entry(entry)
        except SuiteError as error:
            where = f"{suite / 'manifest.json'}, entry {number} (counting from 0)"
            raise HostError(f"{where}: {error}") from error
    return entries


def case_id(entry: dict[str, Any]) -> str:
    return f"{entry['op']}__{entry['case']}"


def select(entries: list[dict[str, Any]], pattern: str | None) -> list[dict[str, Any]]:
    if pattern is None:
        return entries
    chosen = [
        entry
        for entry in entries
        if fnmatch.fnmatchcase(case_id(entry), pattern)
        or fnmatch.fnmatchcase(Path(entry["pte"]).stem, pattern)
    ]
    if not chosen:
        raise HostError(
            f"no case matches --filter {pattern!r}. There are {len(entries)}, "
            f"such as {case_id(entries[0])}; * stands for any text."
        )
    return chosen


class Runner(Protocol):
    """A place to run cases; `variant` is a member of `variants`, the default first, or None."""

    def variants(self, requested: Sequence[str]) -> list[Variant]: ...

    def run(self, entry: dict[str, Any], show: Show, variant: Variant | None) -> dict[str, Any]: ...


@contextmanager
def _runner(options: argparse.Namespace) -> Iterator[Runner]:
    if options.device != "webgpu":
        if options.device != "numpy":
            print(f"adapter: {native_adapter(options.device)}", flush=True)
        yield HereRunner(options.suite, options.device)
        return
    given = (options.suite, options.timeout, options.adapter)
    with PageRunner(*given, options.browser) as runner:
        yield runner


def native_adapter(device: str = "native") -> str:
    """Describe the adapter of a native device; raises HostError if a part is missing."""
    import webpte

    try:
        info = asyncio.run(webpte.shared_device(device)).info
    except webpte.WebpteError as error:
        raise HostError(str(error)) from error
    f16 = "with" if info.has_f16 else "without"
    return f"{info.vendor} {info.architecture} {info.description}, {f16} f16"


def run_here(
    suite: Path,
    entry: dict[str, Any],
    show: Show = lambda _doing: None,
    device: str = "numpy",
) -> dict[str, Any]:
    """Run a case in this process."""
    from webpte_export.suites.suite import run_entry

    return asyncio.run(
        run_entry(
            entry,
            _reader(suite),
            device,
            locate=lambda path: suite / path,
            progress=lambda *state: show(describe(*state)),
        )
    )


def _reader(suite: Path) -> Callable[[str], Awaitable[bytes]]:
    async def fetch_bytes(path: str) -> bytes:
        return (suite / path).read_bytes()

    return fetch_bytes


class HereRunner:
    """A runner in this process."""

    def __init__(self, suite: Path, device: str) -> None:
        self._suite = suite
        self._device = device
        self._variant_runs: VariantRuns | None = None
        self._show: Show = lambda _doing: None

    def variants(self, requested: Sequence[str]) -> list[Variant]:
        from webpte_export.suites.variants import VariantRuns, described_variants

        self._variant_runs = VariantRuns(
            _reader(self._suite),
            self._device,
            locate=lambda path: self._suite / path,
            progress=lambda *state: self._show(describe(*state)),
        )
        return asyncio.run(described_variants(requested, self._device))

    def run(self, entry: dict[str, Any], show: Show, variant: Variant | None) -> dict[str, Any]:
        if variant is None:
            return run_here(self._suite, entry, show, self._device)
        assert self._variant_runs is not None
        self._show = show
        return asyncio.run(self._variant_runs.run(entry, variant))


class PageRunner:
    """A runner in a harness page, which is replaced when it is lost."""

    def __init__(
        self, suite: Path, timeout: float, adapter: str | None, browser: str = BROWSERS[0]
    ) -> None:
        self._suite = suite
        self._timeout = timeout
        self._adapter = adapter
        self._browser = browser
        self._site_stack = ExitStack()
        self._browser_stack = ExitStack()
        self._harness: Harness | None = None

    def __enter__(self) -> PageRunner:
        from webpte_host.serving.server import Site

        self._site = self._site_stack.enter_context(Site(mounts=[Mount(_PREFIX, self._suite)]))
        try:
            adapter = self._open().adapter()
        except PageLostError as error:
            self.__exit__()
            raise HostError(f"the browser cannot be used: {error}") from error
        try:
            self._check(adapter)
        except HostError:
            self.__exit__()
            raise
        return self

    def _check(self, adapter: dict[str, str] | None) -> None:
        if self._browser != BROWSERS[0] and adapter is None:
            raise HostError("this Firefox offers no WebGPU adapter; version 141 and newer have it")
        if chromium.chosen_adapter(self._adapter) == "hardware":
            print(f"adapter: {check_hardware(adapter)}", flush=True)
        elif adapter is None:
            raise HostError(_NO_ADAPTER)

    def __exit__(self, *_: object) -> None:
        self._browser_stack.close()
        self._site_stack.close()

    def _open(self) -> Harness:
        from webpte_host.harness.browser import Harness, open_browser
        from webpte_host.harness.firefox import open_firefox

        if self._harness is None:
            started = (
                open_browser(self._adapter) if self._browser == BROWSERS[0] else open_firefox()
            )
            # Firefox has the part of Playwright's API that the harness uses.
            browser = cast("Browser", self._browser_stack.enter_context(started))
            self._harness = Harness.open(browser, self._site)
        return self._harness

    def _drop(self) -> None:
        """Close the browser of a lost page. A new browser is slow to start, but works again."""
        self._harness = None
        with contextlib.suppress(Exception):
            self._browser_stack.close()

    def variants(self, requested: Sequence[str]) -> list[Variant]:
        page, names = self._open(), list(requested)
        found: list[Variant] = page.python(_FIND_VARIANTS, timeout=self._timeout, requested=names)
        return found

    def run(
        self, entry: dict[str, Any], show: Show, variant: Variant | None = None
    ) -> dict[str, Any]:
        result = self._run(entry, show, variant)
        return (
            result if variant is None else {**NO_COMPARISON, "variant": variant["label"], **result}
        )

    def _run(self, entry: dict[str, Any], show: Show, variant: Variant | None) -> dict[str, Any]:
        started = time.monotonic()
        if self._harness is None:
            show("start of a page")
        try:
            result: dict[str, Any] = self._open().python(
                _IN_PAGE,
                timeout=self._timeout,
                watcher=show,
                entry=entry,
                prefix=_PREFIX,
                variant=variant,
            )
        except PagePythonError as error:
            return _lost(entry, error.summary, started)
        except PageLostError as error:
            self._drop()
            return _lost(entry, str(error), started)
        if str(result["error"]).startswith("DeviceLostError"):
            self._drop()
        return result


def _lost(entry: dict[str, Any], error: str, started: float) -> dict[str, Any]:
    row = {"op": entry["op"], "case": entry["case"], "verdict": "failed", "error": error}
    ms = round((time.monotonic() - started) * 1000, 3)
    return {**row, "outputs": [], "ops": [], "ms": ms}
