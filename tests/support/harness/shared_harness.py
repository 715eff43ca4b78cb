"""The harness page that the tests of a browser share."""

from __future__ import annotations

from typing import cast

from playwright.sync_api import Browser, BrowserContext

from webpte_host.harness.browser import Harness
from webpte_host.harness.firefox import FirefoxBrowser
from webpte_host.serving.server import Site


class SharedHarness:
    """A page for many tests, replaced if a test loses it."""

    def __init__(self, browser: Browser | BrowserContext, site: Site) -> None:
        self._browser = browser
        self._site = site
        self._harness: Harness | None = None

    def get(self) -> Harness:
        harness = self._harness
        if harness is None or harness.lost or harness.page.is_closed():
            harness = self._harness = Harness.open(self._browser, self._site)
            # Fail rather than skip: without an adapter nothing would be tested.
            assert harness.adapter() is not None, "this browser has no WebGPU adapter"
            assert harness.log.errors == []
            assert harness.log.console_errors == []
        return harness

    def close(self) -> None:
        if self._harness is not None:
            self._harness.close()


def as_browser(browser: FirefoxBrowser) -> Browser:
    """Adapt the browser to the part of Playwright's API that Harness uses."""
    return cast("Browser", browser)
