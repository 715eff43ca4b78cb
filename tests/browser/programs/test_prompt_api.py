"""webpte/prompt in a page: each method, option and error of the Prompt API.

tests/support/npm/prompt.js has the page's side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from support.docs.documents import blocks_of
from support.harness.image_text_cases import models_folder
from support.npm.checks import ANSWER, PROMPT_CHECKS, check_creation, check_pictures
from support.npm.host import run, scenario_page
from webpte_host.base.layout import ROOT

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
    with scenario_page(browser, folder, "prompt.html") as page:
        yield page


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
