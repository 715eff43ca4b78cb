"""webpte/prompt in a page: each method, option and error of the Prompt API.

tests/support/npm/prompt.js has the page's side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from support.docs.documents import blocks_of
from support.harness import limits
from support.harness.image_text_cases import models_folder
from support.npm.checks import ANSWER, PROMPT_CHECKS, check_creation, check_pictures
from support.npm.host import npm_host
from webpte_host.base.layout import ROOT
from webpte_host.harness.browser import PageLog

DOCUMENT = ROOT / "docs/use/prompt_api.md"
IMPORT = re.compile(r'^import \{ \w+ \} from "webpte/prompt";\n', re.MULTILINE)

# Runs an example, and returns the logged values.
LOGGED = """async () => {
    const { install, languageModel } = prompts, said = [];
    const console = { log: (...words) => said.push(...words) };
    { %s }
    delete globalThis.LanguageModel;
    return said;
}"""


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


def test_the_examples_of_the_document(page: Page) -> None:
    found = []
    for block in blocks_of(DOCUMENT):
        code = IMPORT.sub("", block.text)
        if block.language == "js":
            found.append(page.evaluate(LOGGED % code))
    installed, small = found
    assert "".join(installed)
    assert small[0] == "available"
    assert small[1] == "0 %"
    assert small[-4] == "100 %"
    assert small[-3] == ANSWER
    assert small[-1] == 512


@pytest.mark.thorough
def test_pictures_of_every_kind(page: Page) -> None:
    check_pictures(run(page, "pictures", "sees/patches/"))
