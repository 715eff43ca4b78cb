"""The notebooks of the static site in JupyterLite: opened, and run from top to bottom."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from support.harness import limits
from support.page.static_site import StaticHost, static_host
from webpte_host.commands.build import build
from webpte_host.harness.browser import open_browser
from webpte_host.site.build_notebooks import NOTEBOOKS

NAMES = [path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb"))]
PICTURES = {"a_picture_model": 3}
# Time for the kernel, IPython and matplotlib to start, and for all cells to run.
RUN_MS = 4 * limits.START_MS


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StaticHost]:
    root = tmp_path_factory.mktemp("host")
    build(root / "below", models=None, notebooks=True)
    with static_host(root) as host:
        yield host


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    page.set_default_timeout(limits.START_MS)
    yield page
    page.close()


def run_all(page: Page, address: str) -> None:
    page.goto(address)
    # The first visit loads the page twice, for the isolation headers.
    page.wait_for_function("crossOriginIsolated && document.querySelector('.jp-CodeCell')")
    # Cells that are run before the notebook has a kernel are skipped silently.
    kernel = page.locator(".jp-Notebook-ExecutionIndicator")
    expect(kernel).to_have_attribute("data-status", "idle", timeout=limits.START_MS)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name=re.compile("^Run All Cells")).click()
    ended = page.locator(".jp-OutputArea-output").filter(
        has_text=re.compile(r"^done\s*$|Traceback")
    )
    asked = page.locator(".jp-Dialog")  # such as a request for a kernel, which nobody answers
    expect(ended.or_(asked).first).to_be_visible(timeout=RUN_MS)
    assert asked.all_inner_texts() == []


@pytest.mark.parametrize("name", NAMES)
def test_runs_from_top_to_bottom(page: Page, host: StaticHost, name: str) -> None:
    run_all(page, f"{host.url}below/notebooks/notebooks/index.html?path={name}.ipynb")
    texts = page.locator(".jp-OutputArea-output").all_inner_texts()
    assert [text for text in texts if "Traceback" in text] == []
    assert texts[-1].strip() == "done"
    # The first output of each notebook is a program.
    expect(page.locator(".jp-OutputArea-output table caption").first).to_contain_text(".pte")
    expect(page.locator(".jp-OutputArea-output img")).to_have_count(PICTURES.get(name, 0))


def test_there_are_three() -> None:
    assert NAMES == ["a_chat", "a_picture_model", "first_steps"]
