"""A page of a static host with compiled programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page

from support.page.static_site import static_host
from webpte_host.harness.browser import PageLog

PAGE = '<!doctype html><title>Compiled</title><link rel="icon" href="data:,">'


@contextmanager
def page_of(browser: Browser, folder: Path) -> Iterator[Page]:
    """Open an empty page of a host of a folder, in which no error may be logged."""
    (folder / "index.html").write_text(PAGE, "utf-8")
    with static_host(folder) as host:
        page = browser.new_page()
        log = PageLog(page)
        page.goto(host.url)
        yield page
        assert log.errors == []
        page.close()
