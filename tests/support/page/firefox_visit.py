"""The page in Firefox, driven like a user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from webpte_host.base.layout import STATE
from webpte_host.harness.firefox import FirefoxBrowser, FirefoxPage
from webpte_host.serving.server import Site

PICTURES = STATE / "reports" / "firefox"
STARTED = "() => ['ready', 'failed'].includes(document.documentElement.dataset.state)"


@contextmanager
def visit(firefox: FirefoxBrowser, site: Site) -> Iterator[FirefoxPage]:
    """Open the page, wait until it has started, and check at the end that nothing went wrong."""
    page = firefox.new_page()
    errors: list[str] = []
    page.on("pageerror", errors.append)
    page.on("console", lambda message: errors.extend([message.text] * (message.type == "error")))
    page.set_viewport(1440, 900)
    page.goto(site.url)
    page.wait_for(STARTED)
    assert page.evaluate("() => document.querySelector('#boot-note')?.innerText") is None
    yield page
    assert errors == []
    page.close()


def take_picture(page: FirefoxPage, name: str) -> None:
    """Save a picture among the reports, to be looked at."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    (PICTURES / f"{name}.png").write_bytes(page.picture())
