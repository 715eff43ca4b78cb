"""The page in browsers that lack an API: it works without, or names the missing API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from support.harness import limits
from support.page import page_visit
from support.page.static_site import StaticHost, static_host
from webpte_host.base.layout import WEB
from webpte_host.commands.build import build
from webpte_host.serving.server import Site

SAMPLE = "?url=samples/sigmoid.pte"
NO_SERVICE_WORKER = "delete Navigator.prototype.serviceWorker;"
# As in a browser that knows one kind of worker, and never asks for another.
NO_MODULE_WORKERS = "Worker = class extends Worker { constructor(url) { super(url); } };"
# Python runs in a worker, which init scripts do not reach.
IN_WORKER = (
    "from __future__ import annotations\nfrom pyodide.code import run_js\nrun_js('''{}''')\n"
)
NO_WRITING = "delete FileSystemFileHandle.prototype.createWritable"


def runs(page: Page) -> None:
    x = page_visit.random_input(3)
    page_visit.give_npy(page, 0, x)
    page_visit.run(page)
    np.testing.assert_allclose(page_visit.downloaded(page), page_visit.sigmoid(x), atol=1e-5)


@pytest.mark.thorough
def test_where_files_cannot_be_written_the_page_runs_and_keeps_nothing(
    profile: BrowserContext, site: Site
) -> None:
    text = (WEB / "main.py").read_text("utf-8")
    without = text.replace("from __future__ import annotations\n", IN_WORKER.format(NO_WRITING), 1)
    assert without != text

    def answer(route: Route) -> None:
        route.fulfill(body=without, content_type="text/x-python")

    profile.route(re.compile(r"/main\.py"), answer)
    try:
        with page_visit.visit(profile, site, SAMPLE) as page:
            expect(page_visit.status(page)).to_contain_text(
                re.compile("sigmoid.pte loaded|Done"), timeout=limits.START_MS
            )
            runs(page)
            expect(page.locator("#library-total")).to_have_text("empty")
            expect(page.locator("#error")).to_be_empty()
    finally:
        profile.unroute(re.compile(r"/main\.py"))


def test_a_full_disk_is_told_and_the_program_runs(profile: BrowserContext, site: Site) -> None:
    with page_visit.visit(profile, site) as page:
        browser = page.context.new_cdp_session(page)
        origin = {"origin": site.url.rstrip("/")}
        browser.send("Storage.overrideQuotaForOrigin", {**origin, "quotaSize": 1000})
        try:
            page_visit.open_address(page, "samples/digits.pte?other")  # which is not kept yet
            note = page.locator("#keep")
            # Chromium may tell the room of before, and then refuse the written bytes.
            refused = re.compile(r"digits\.pte (is not|could not be) kept: the browser has no room")
            expect(note).to_contain_text(refused)
            expect(page_visit.status(page)).to_contain_text(re.compile("loaded|Done"))
            page_visit.run(page)
            expect(note).to_contain_text("It works all the same")  # a run does not take it away
            expect(page.locator("#error")).to_be_empty()
        finally:
            browser.send("Storage.overrideQuotaForOrigin", origin)
        page.locator("[data-act=close]").click()
        expect(note).to_be_empty()


def test_without_module_workers_the_page_says_what_to_use(
    profile: BrowserContext, site: Site
) -> None:
    page = page_visit.open_page(profile, site, scripts=[NO_MODULE_WORKERS])
    expect(page_visit.status(page)).to_have_text("Python did not start")
    expect(page.locator("#boot-note")).to_contain_text("this browser has no module workers. Use")
    page.close()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StaticHost]:
    folder: Path = tmp_path_factory.mktemp("site")
    build(folder, models=None)
    with static_host(folder) as host:
        yield host


@pytest.mark.thorough
def test_without_a_service_worker_a_plain_host_runs_programs(page: Page, host: StaticHost) -> None:
    """Nothing isolates the page there, so it has no shared memory."""
    page.add_init_script(NO_SERVICE_WORKER)
    page.goto(f"{host.url}{SAMPLE}")
    page_visit.wait_until_ready(page)
    expect(page_visit.status(page)).to_contain_text(
        re.compile("sigmoid.pte loaded|Done"), timeout=limits.START_MS
    )
    assert not page.evaluate("crossOriginIsolated")
    runs(page)
    assert page.locator("html").get_attribute("data-offline") is None
