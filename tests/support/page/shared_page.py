"""The page that files of tests share, because Python starts slowly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import BrowserContext, Page

from support.page.page_visit import (
    WINDOW,
    forget_in_place,
    leave,
    open_page,
    unexpected,
    wait_until_ready,
)
from webpte_host.harness.browser import PageLog
from webpte_host.serving.server import Site


class SharedPage:
    """A tab with the page, which each file of tests gets without a program, a permission, or
    anything kept.

    After a failure, the next file gets another tab.
    """

    def __init__(self, profile: BrowserContext, site: Site) -> None:
        self._profile = profile
        self._site = site
        self._opened: tuple[Page, PageLog] | None = None

    @contextmanager
    def lent(self, session: pytest.Session, but: str | None = None) -> Iterator[Page]:
        """Lend the page to a file of tests, and check at the end that nothing is wrong on it.

        Errors in the console with the text `but` are what tests there are about.
        """
        page, log = self._open()
        page.context.clear_permissions()
        forget_in_place(page)
        page.evaluate("longTasks.length = 0")
        failures = session.testsfailed
        try:
            yield page
            assert unexpected(log, but) == []
            log.take()
            assert not log.crashed
            if session.testsfailed == failures:
                page.unroute_all()
                page.set_viewport_size(WINDOW)
                leave(page)
                return
        except BaseException:
            self.close()
            raise
        self.close()

    def close(self) -> None:
        if self._opened is not None:
            self._opened[0].close()
            self._opened = None

    def _open(self) -> tuple[Page, PageLog]:
        if self._opened is None or self._opened[0].is_closed():
            page = open_page(self._profile, self._site)
            self._opened = page, PageLog(page)
            wait_until_ready(page)
        return self._opened
