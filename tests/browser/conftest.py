"""A served site, a headless Chromium, and the harness page, for all browser tests together.

    def test_something(harness: Harness) -> None:
        assert harness.python("import numpy as np; return np.arange(n).sum()", n=4) == 6

The data folder of the tests is served at `/data/`, the models of tasks at `/tasks/`, and models
that answer questions about pictures at `/image_text/`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, BrowserType, Page, expect

from support.harness import image_text_cases, limits
from support.harness.parts import CRASH_SECTION
from support.harness.shared_harness import SharedHarness
from support.harness.task_cases import models_folder
from support.page.label_lookups import limit_lookups
from support.page.page import COUNTS, check_counts, python
from support.page.shared_page import SharedPage
from webpte_host.harness.browser import Harness, open_browser
from webpte_host.harness.watchdog import BrowserProcesses
from webpte_host.serving.routing import Mount
from webpte_host.serving.server import Site
from webpte_host.setup import chromium
from webpte_host.setup.runtime import ensure_runtime


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a page that crashed which processes live, and their memory."""
    report = yield
    if call.excinfo is not None and "crashed" in str(call.excinfo.value):
        report.sections.append((CRASH_SECTION, BrowserProcesses().memory_text()))
    return report


@pytest.fixture(scope="session", autouse=True)
def patience() -> Iterator[None]:
    """Playwright's own limits, where a test names none, are for a machine that is idle."""
    launch, new_page, new_context = BrowserType.launch, Browser.new_page, Browser.new_context

    def patient_launch(kind: BrowserType, **options: Any) -> Browser:
        return launch(kind, **{"timeout": limits.START_MS, **options})

    def patient_page(browser: Browser, **options: Any) -> Page:
        page = new_page(browser, **options)
        page.set_default_timeout(limits.EXPECT_MS)
        return page

    def patient_context(browser: Browser, **options: Any) -> BrowserContext:
        context = new_context(browser, **options)
        context.set_default_timeout(limits.EXPECT_MS)
        return context

    expect.set_options(timeout=limits.EXPECT_MS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BrowserType, "launch", patient_launch)
        patch.setattr(Browser, "new_page", patient_page)
        patch.setattr(Browser, "new_context", patient_context)
        limit_lookups(patch)
        yield


@pytest.fixture(scope="session")
def site(root: Path) -> Iterator[Site]:
    ensure_runtime()
    mounts = [
        Mount("/data/", root / "tests" / "data"),
        Mount("/tasks/", models_folder()),
        Mount("/image_text/", image_text_cases.models_folder()),
    ]
    with Site(mounts=mounts) as site:
        yield site


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def profile(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """A browser that keeps its cache and compiled code, as people's do: this halves a start.

    `visit` sees to it that nothing else is left of the visit before. The camera and the microphone
    show and play a test signal.
    """
    signal = "--use-fake-device-for-media-stream"
    with _kept_context(browser, tmp_path_factory.mktemp("profile"), signal) as context:
        yield context


@pytest.fixture(scope="session")
def shared_page(profile: BrowserContext, site: Site) -> Iterator[SharedPage]:
    shared = SharedPage(profile, site)
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def started(shared_page: SharedPage, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The page without a program, for the tests of a file; other files have used it before."""
    with shared_page.lent(request.session) as page:
        yield page


@pytest.fixture(scope="session")
def workshop(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrowserContext]:
    """A browser that keeps compiled code, for harness pages: apart from what other pages store."""
    with _kept_context(browser, tmp_path_factory.mktemp("workshop")) as context:
        yield context


@contextmanager
def _kept_context(browser: Browser, folder: Path, *flags: str) -> Iterator[BrowserContext]:
    context = browser.browser_type.launch_persistent_context(
        folder, **chromium.launch_options(None, *flags), timeout=limits.START_MS
    )
    context.set_default_timeout(limits.EXPECT_MS)
    yield context
    context.close()


@pytest.fixture
def own_browser(browser: Browser) -> Iterator[Browser]:
    """A separate browser for a test: pages of one site share a process, and its memory."""
    launched = browser.browser_type.launch(**chromium.launch_options())
    yield launched
    launched.close()


@pytest.fixture
def page(own_browser: Browser) -> Iterator[Page]:
    """A page in a separate browser. Files whose tests share a page have another fixture."""
    page = own_browser.new_page()
    yield page
    page.close()


@pytest.fixture(scope="session")
def shared_harness(workshop: BrowserContext, site: Site) -> SharedHarness:
    return SharedHarness(workshop, site)


@pytest.fixture
def harness(shared_harness: SharedHarness) -> Harness:
    return shared_harness.get()


@pytest.fixture
def fresh_harness(workshop: BrowserContext, site: Site) -> Iterator[Harness]:
    """A page of one's own, to break."""
    harness = Harness.open(workshop, site)
    yield harness
    harness.close()


@pytest.fixture
def flat_counts(harness: Harness) -> Iterator[None]:
    """Nothing that the test loads may stay on the device."""
    before = python(harness, COUNTS)
    yield
    if not harness.lost:
        check_counts(harness, before)
