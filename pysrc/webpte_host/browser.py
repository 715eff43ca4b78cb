"""Headless Chromium through Playwright, and the harness page in it."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from webpte_host import chromium
from webpte_host.errors import HostError
from webpte_host.server import Site

CALL_SECONDS = 300.0


class PagePythonError(Exception):
    """Python in the page raised; the message is its traceback, `summary` the last line."""

    def __init__(self, traceback: str, summary: str) -> None:
        super().__init__(traceback)
        self.summary = summary


class PageLostError(Exception):
    """The page crashed or did not answer in time. It cannot be used any more."""


@contextmanager
def open_browser(adapter: str | None = None) -> Iterator[Browser]:
    """Full Chromium, headless, with WebGPU on the CPU unless WEBPTE_ADAPTER says `hardware`."""
    chosen = adapter or os.environ.get("WEBPTE_ADAPTER", "swiftshader")
    path = chromium.find()
    # Playwright switches to its own software renderer for WebGL, which hides the real GPU.
    ignored = ["--enable-unsafe-swiftshader"] if chosen == "hardware" else []
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(
                executable_path=path,
                # Playwright's own full browser; its default would be the headless shell.
                channel=None if path else "chromium",
                args=chromium.flags(chosen),
                ignore_default_args=ignored,
            )
        except PlaywrightError as error:
            reason = "\n".join(error.message.splitlines()[:12])
            raise HostError(f"{path or 'Chromium'} did not start:\n{reason}") from error
        try:
            yield browser
        finally:
            browser.close()


class PageLog:
    """What went wrong in a page: uncaught errors, and what was written as console error."""

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
            self.console_errors.append(message.text)

    def _mark_crashed(self) -> None:
        self.crashed = True


class Harness:
    """The loaded harness page: plain Pyodide with NumPy and webpte."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.log = PageLog(page)
        self.lost = False

    @classmethod
    def open(cls, browser: Browser, site: Site) -> Harness:
        """Raises PageLostError if the page does not come up, with the reason."""
        try:
            harness = cls(browser.new_page())
            harness.page.goto(f"{site.url}harness.html")
            harness._evaluate("() => globalThis.webpteReady")
        except PlaywrightError as error:
            raise PageLostError(f"the harness page did not load: {error.message}") from error
        return harness

    def adapter(self) -> dict[str, str] | None:
        """What WebGPU runs on here; None if there is no adapter."""
        # The first request can be answered too early, before the GPU process is up.
        found: dict[str, str] | None = self._evaluate("""async () => {
            for (let attempt = 0; attempt < 5; attempt++) {
                const adapter = await navigator.gpu?.requestAdapter();
                if (adapter) {
                    const {vendor, architecture, description} = adapter.info;
                    return {vendor, architecture, description};
                }
                await new Promise((resolve) => setTimeout(resolve, 300));
            }
            return null;
        }""")
        return found

    def python(self, code: str, *, timeout: float = CALL_SECONDS, **arguments: Any) -> Any:
        """Run the body of an async Python function whose parameters are `arguments`.

        The code may be indented as a whole. Arguments and return value travel as JSON (NumPy
        arrays are returned as lists). What later calls shall see is declared `global`.
        """
        # The page watches the clock: Playwright cannot interrupt an evaluation.
        run = "([code, args, seconds]) => globalThis.runPython(code, args, seconds)"
        reply = self._evaluate(run, [textwrap.dedent(code), arguments, timeout])
        if "timeout" in reply:
            self.lost = True
            raise PageLostError(f"no answer from the page within {timeout:g} s")
        if "error" in reply:
            raise PagePythonError(reply["error"], reply["summary"])
        return reply["value"]

    def close(self) -> None:
        self.page.close()

    def _evaluate(self, function: str, argument: Any = None) -> Any:
        try:
            return self.page.evaluate(function, argument)
        except PlaywrightError as error:
            if self.log.crashed or self.page.is_closed() or "crashed" in str(error):
                self.lost = True
                raise PageLostError("the page crashed") from error
            raise


class SharedHarness:
    """One page for many tests; one that loses it does not take the others with it."""

    def __init__(self, browser: Browser, site: Site) -> None:
        self._browser = browser
        self._site = site
        self._harness: Harness | None = None

    def get(self) -> Harness:
        if self._harness is None or self._harness.lost:
            self._harness = Harness.open(self._browser, self._site)
            # Never a skip: without an adapter nothing would be tested.
            assert self._harness.adapter() is not None, "this Chromium has no WebGPU adapter"
            assert self._harness.log.errors == []
            assert self._harness.log.console_errors == []
        return self._harness
