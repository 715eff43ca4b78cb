"""Headless Chromium through Playwright, and the harness page in it."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from webpte_host.base.errors import HostError, PageLostError, PagePythonError
from webpte_host.harness.report import describe
from webpte_host.harness.watchdog import BrowserProcesses, Watchdog, alarm
from webpte_host.serving.server import Site
from webpte_host.setup import chromium

# A call of Python may run for this long with neither progress nor CPU activity.
CALL_SECONDS = 300.0
_START_MS = 600_000
_LOOK_MS = 1_000
_ADAPTER_MS = 60_000
_EARLY_MS = 10_000  # in this time "no adapter" may only mean that the GPU process is not up yet
_NOT_LOADED = "Failed to load resource"  # says not which
_START_CALL = 0  # numbered by harness.js
# Time for a hanging page to report its waiting coroutines, and for the GPU to create another
# device.
_ANSWER_MS = 10_000
_GPU_ANSWER_MS = 60_000
# The page's main thread only forwards messages: if it is silent for this long, it is stuck, however
# busy the machine is.
STUCK_SECONDS = 120.0

# Called once a second with a description of a call's progress.
Watcher = Callable[[str], None]


# Lists the waiting coroutines of each task, from the outermost to the innermost.
_WAITING = """
import asyncio

def frames(coroutine):
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is not None:
            code = frame.f_code
            yield f"{code.co_name} ({code.co_filename.rpartition('/')[2]}:{frame.f_lineno})"
        inner = getattr(coroutine, "cr_await", None)
        coroutine = inner or getattr(coroutine, "gi_yieldfrom", None)

tasks = asyncio.all_tasks() - {asyncio.current_task()}
return [" > ".join(frames(task.get_coro())) for task in tasks]
"""


@contextmanager
def open_browser(adapter: str | None = None) -> Iterator[Browser]:
    """A full, headless Chromium with WebGPU on the CPU unless WEBPTE_ADAPTER is `hardware`."""
    options = chromium.launch_options(adapter)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(**options, timeout=_START_MS)
        except PlaywrightError as error:
            reason = "\n".join(error.message.splitlines()[:12])
            started = options["executable_path"] or "Chromium"
            raise HostError(f"{started} did not start:\n{reason}") from error
        try:
            yield browser
        finally:
            browser.close()


class PageLog:
    """The errors of a page: uncaught errors, and errors in the console."""

    def __init__(self, page: Page) -> None:
        self.errors: list[str] = []
        self.console_errors: list[str] = []
        self.console: list[str] = []
        self.crashed = False
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._add)
        page.on("crash", lambda _page: self._mark_crashed())

    def _add(self, message: ConsoleMessage) -> None:
        self.console.append(f"{message.type}: {message.text}")
        if message.type == "error":
            text, url = message.text, message.location["url"]
            self.console_errors.append(f"{text} ({url})" if text.startswith(_NOT_LOADED) else text)

    def take(self) -> tuple[list[str], list[str]]:
        """Return the errors so far, uncaught and in the console, and clear them."""
        taken = self.errors, self.console_errors
        self.errors, self.console_errors = [], []
        return taken

    def _mark_crashed(self) -> None:
        self.crashed = True


class Harness:
    """The loaded harness page: plain Pyodide with NumPy, webpte and webpte_export.suites."""

    def __init__(self, page: Page, stuck_seconds: float = STUCK_SECONDS) -> None:
        """Wrap a page; after `stuck_seconds` without an answer it counts as stuck."""
        self.page = page
        self.log = PageLog(page)
        self._stuck_seconds = stuck_seconds
        self._given_up = False
        self._processes = BrowserProcesses()

    @property
    def lost(self) -> bool:
        return self._given_up or self.log.crashed

    @classmethod
    def open(
        cls, browser: Browser | BrowserContext, site: Site, stuck_seconds: float = STUCK_SECONDS
    ) -> Harness:
        """Open the harness page; raises PageLostError with the reason if it does not load."""
        try:
            harness = cls(browser.new_page(), stuck_seconds)
            harness.page.goto(f"{site.url}harness.html", timeout=_START_MS)
            harness._wait_for(_START_CALL, CALL_SECONDS, None)
        except PlaywrightError as error:
            raise PageLostError(f"the harness page did not load: {error.message}") from error
        return harness

    def adapter(self) -> dict[str, str] | None:
        """Return the adapter's info; None without an adapter."""
        # The first requests may be answered before the GPU process is up, which takes seconds on a
        # busy machine. A request for a missing GPU is never answered, because the browser restarts
        # that process again and again.
        found: dict[str, str] | None = self._evaluate(
            """async ([ms, earlyMs]) => {
            if (!navigator.gpu) return null;
            const begun = performance.now();
            const late = new Promise((resolve) => setTimeout(resolve, ms, "late"));
            while (true) {
                const adapter = await Promise.race([navigator.gpu.requestAdapter(), late]);
                if (adapter === "late") return null;
                if (adapter) {
                    const {vendor, architecture, description, device = ""} = adapter.info;
                    return {vendor, architecture, description: description || device};
                }
                if (performance.now() - begun > earlyMs) return null;
                await new Promise((resolve) => setTimeout(resolve, 300));
            }
        }""",
            [_ADAPTER_MS, _EARLY_MS],
            may_take_ms=_ADAPTER_MS,
        )
        return found

    def python(
        self,
        code: str,
        *,
        timeout: float = CALL_SECONDS,
        watcher: Watcher | None = None,
        **arguments: Any,
    ) -> Any:
        """Run the body of an async Python function whose parameters are `arguments`.

        The code may be indented as a whole. Arguments and return value travel as JSON (NumPy
        arrays are returned as lists). Names for later calls are declared `global`. Once a second
        `watcher` gets the latest `report_progress(stage, done, total)` of the code, as text.

        The call fails after `timeout` seconds with neither progress nor CPU activity, and after
        ten times as long if the browser computes but the code reports no progress.
        """
        if self.lost:
            raise PageLostError("the page was lost before this call")
        call = self._start(textwrap.dedent(code), arguments)
        reply = self._wait_for(call, timeout, watcher)
        if "error" in reply:
            raise PagePythonError(reply["error"], reply["summary"])
        return reply["value"]

    def _start(self, code: str, arguments: dict[str, Any]) -> int:
        start = "([code, args]) => globalThis.startPython(code, args)"
        call: int = self._evaluate(start, [code, arguments])
        return call

    def _look(self, call: int, ms: int) -> dict[str, Any]:
        look = "([call, ms]) => globalThis.watchPython(call, ms)"
        seen: dict[str, Any] = self._evaluate(look, [call, ms], may_take_ms=ms)
        return seen

    def _wait_for(self, call: int, timeout: float, watcher: Watcher | None) -> dict[str, Any]:
        """Poll a call until it ends. The page answers at once: Python runs in a worker."""
        watchdog, doing = Watchdog(timeout), "no stage reported"
        while True:
            seen = self._look(call, _LOOK_MS)
            if "reply" in seen:
                reply: dict[str, Any] = seen["reply"]
                return reply
            if "failed" in seen:
                self._given_up = True
                raise PageLostError(seen["failed"])
            if seen["progress"] is not None:
                doing = describe(**seen["progress"])
            if watcher is not None:
                watcher(doing)
            if reason := watchdog.observe(seen["moves"], self._processes.busy_seconds()):
                last_words = self._last_words()
                self._give_up()
                raise PageLostError(f"{reason} ({doing}); {last_words}")

    def _last_words(self) -> str:
        """Describe why a page hangs: its waiting coroutines, and whether the GPU still answers."""
        try:
            call = self._start(_WAITING, {})
            ask = "(ms) => globalThis.gpuAnswers(ms)"
            gpu = self._evaluate(ask, _GPU_ANSWER_MS, may_take_ms=_GPU_ANSWER_MS)
            seen = self._look(call, _ANSWER_MS)
        except (PageLostError, PlaywrightError) as error:
            return f"the page does not answer: {error}"
        waiting = seen.get("reply", {}).get("value")
        python = f"Python waits in {waiting}" if waiting is not None else "Python does not answer"
        return f"{python}; another device of its GPU {gpu}"

    def _give_up(self) -> None:
        """Stop the work in the page, which would slow down other pages."""
        self._given_up = True
        with contextlib.suppress(PageLostError, PlaywrightError):
            self._evaluate("() => globalThis.stopPython()")

    def close(self) -> None:
        self.page.close()

    def _evaluate(self, function: str, argument: Any = None, *, may_take_ms: int = 0) -> Any:
        """Call a function of the page, which takes up to `may_take_ms` by design.

        Playwright cannot interrupt an evaluation, so a stuck page is killed instead.
        """
        seconds = self._stuck_seconds + may_take_ms / 1000
        with alarm(seconds, self._processes.kill_pages) as rang:
            try:
                return self.page.evaluate(function, argument)
            except PlaywrightError as error:
                if rang.is_set():
                    self._given_up = True
                    raise PageLostError(f"the page did not answer for {seconds:g} s") from error
                if self.log.crashed or self.page.is_closed() or "crashed" in str(error):
                    self._given_up = True
                    facts = self._processes.memory_text()
                    raise PageLostError(f"the page crashed; {facts}") from error
                raise
