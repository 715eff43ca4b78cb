"""webpte/prompt in a page: each method, option and error of the Prompt API.

tests/support/npm/prompt.js has the page's side.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from support.harness import limits
from support.harness.image_text_cases import models_folder
from support.npm.checks import PROMPT_CHECKS, check_creation, check_pictures
from support.npm.host import npm_host
from webpte_host.harness.browser import PageLog


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page that has imported the package; all tests share it, and its worker."""
    folder = tmp_path_factory.mktemp("npm")
    (folder / "sees").symlink_to(models_folder())
    with npm_host(folder) as host:
        page = browser.new_page()
        page.set_default_timeout(limits.START_MS)
        log = PageLog(page)
        page.goto(f"{host.url}prompt.html")
        page.wait_for_function("globalThis.scenarios")
        yield page
        assert log.errors == []
        page.close()


def run(page: Page, scenario: str, given: Any = None) -> Any:
    return page.evaluate("([name, given]) => scenarios[name](given)", [scenario, given])


def test_sessions_are_created(page: Page) -> None:
    check_creation(run(page, "creation"))


@pytest.mark.parametrize("scenario", PROMPT_CHECKS)
def test_sessions(page: Page, scenario: str) -> None:
    PROMPT_CHECKS[scenario](run(page, scenario))


@pytest.mark.thorough
def test_pictures_of_every_kind(page: Page) -> None:
    check_pictures(run(page, "pictures", "sees/patches/"))
