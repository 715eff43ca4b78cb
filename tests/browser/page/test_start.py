"""First and later visits: requests, and the snapshot for the next visit; and back and forward."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from support.harness import limits
from support.page.page_visit import (
    leave,
    open_address,
    open_sample,
    run,
    show_samples,
    status,
    visit,
    wait_until,
    wait_until_ready,
)
from webpte_host.harness.browser import PageLog
from webpte_host.serving.server import Handler, Site
from webpte_host.setup import chromium


class Asked:
    """Requests to the server, and its answers."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.answers: list[tuple[str, int]] = []
        self.bytes = 0
        plain = Handler._head

        def head(handler: Handler, code: HTTPStatus, headers: dict[str, str]) -> None:
            self.answers.append((handler.path, int(code)))
            self.bytes += int(headers.get("Content-Length", 0))
            plain(handler, code, headers)

        patch.setattr(Handler, "_head", head)

    def take(self) -> list[tuple[str, int]]:
        taken, self.answers, self.bytes = self.answers, [], 0
        return taken


@pytest.fixture
def asked() -> Iterator[Asked]:
    with pytest.MonkeyPatch.context() as patch:
        yield Asked(patch)


@pytest.fixture
def new_profile(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrowserContext]:
    """A browser profile that keeps its cache, like a user's, and has nothing in it yet."""
    options = chromium.launch_options(chromium.chosen_adapter())
    folder = tmp_path_factory.mktemp("profile")
    context = browser.browser_type.launch_persistent_context(
        folder, **options, timeout=limits.START_MS
    )
    context.set_default_timeout(limits.EXPECT_MS)
    yield context
    context.close()


@pytest.fixture(scope="module")
def started(profile: BrowserContext, site: Site) -> Iterator[Page]:
    with visit(profile, site) as page:
        yield page


@pytest.fixture
def page(started: Page) -> Iterator[Page]:
    """The page without a program."""
    yield started
    leave(started)


KEPT = """async () => {
  try {
    const root = await navigator.storage.getDirectory();
    const folder = await root.getDirectoryHandle("webpte start");
    return (await (await folder.getFileHandle("snapshot")).getFile()).size;
  } catch {
    return 0;
  }
}"""
# Breaks the snapshot that is kept, in the middle.
BREAK = """async () => {
  const root = await navigator.storage.getDirectory();
  const folder = await root.getDirectoryHandle("webpte start");
  const file = await folder.getFileHandle("snapshot");
  const writing = await file.createWritable({ keepExistingData: true });
  const { size } = await file.getFile();
  await writing.write({ type: "write", position: size >> 1, data: new Uint8Array(4096).fill(7) });
  await writing.close();
}"""
# Needs a module that no start imports, and lines of the library and of the page.
FAILING = """
import json, traceback
import page.core.open_tabs
import imaplib
shown = ""
for fail in (lambda: json.loads("{"), lambda: page.core.open_tabs.lock_name(None, "")):
    try:
        fail()
    except Exception:
        shown += traceback.format_exc()
shown + imaplib.__file__
"""


def starts(page: Page) -> list[str]:
    """Return the modules that a page's worker has fetched to start Python, by their names."""
    found: list[str] = page.workers[0].evaluate(
        "performance.getEntriesByType('resource').map(({ name }) => name.split('/').pop())"
    )
    return found


def test_a_later_visit_starts_from_a_snapshot_unless_it_is_broken(
    new_profile: BrowserContext, site: Site, asked: Asked
) -> None:
    page = new_profile.new_page()
    log = PageLog(page)
    page.goto(site.url)
    wait_until_ready(page)
    assert asked.bytes < 14_500_000
    assert len(asked.answers) <= 70
    fetched = [path.rpartition("/")[2] for path, _ in asked.take()]
    assert {"start.zip", "start_stdlib.zip", "webpte.bytecode"} <= set(fetched)
    assert not {"sources.zip", "python_stdlib.zip", "webpte.zip"} & set(fetched)
    assert fetched.count("pyodide.asm.wasm") == 1
    assert wait_until(page, KEPT) > 10_000_000
    wheel = next(name for name in starts(page) if name.startswith("numpy"))

    page.reload()
    wait_until_ready(page)
    assert not {wheel, "start.zip", "webpte.bytecode"} & set(starts(page))
    open_sample(page)
    run(page)
    page.get_by_role("tab", name="Python").click()
    page.locator("#python-cell").fill(FAILING)
    page.locator("#python-cell").press("Control+Enter")
    answer = page.locator("#view-python")
    expect(answer).to_contain_text("whole.zip/imaplib.py")
    expect(answer).to_contain_text("obj, end = self.scan_once(s, idx)")
    expect(answer).to_contain_text('told = {"name": program.name')
    later = [path.rpartition("/")[2] for path, _ in asked.take()]
    assert {"sources.zip", "python_stdlib.zip"} <= set(later)

    page.evaluate(BREAK)
    page.reload()
    wait_until_ready(page)
    assert {wheel, "start.zip", "webpte.bytecode"} <= set(starts(page))
    assert wait_until(page, KEPT) > 10_000_000
    assert (log.errors, log.console_errors) == ([], [])


@pytest.mark.thorough
def test_a_second_visit_asks_for_the_page_and_the_gallery_alone(
    new_profile: BrowserContext, site: Site, asked: Asked
) -> None:
    page = new_profile.new_page()
    page.goto(site.url)
    wait_until_ready(page)
    cold = [path for path, _ in asked.take()]
    assert any(path.endswith("/pyodide.asm.wasm") for path in cold)
    assert len([path for path in cold if path.endswith("/start.zip")]) == 1
    page.close()
    page = new_profile.new_page()
    page.goto(site.url)
    wait_until_ready(page)
    warm = asked.take()
    others = [path for path, _ in warm if not path.startswith("/samples/")]  # pictures of cards
    assert sorted(others) == ["/", "/gallery.json"]
    assert len(warm) < 10, warm


def test_back_goes_from_view_to_view_and_to_the_gallery(page: Page, site: Site) -> None:
    def in_front(name: str) -> None:
        expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")

    show_samples(page)
    page.locator("#gallery-list [data-name=sigmoid]").click()
    expect(status(page)).to_contain_text("sigmoid.pte loaded")
    page.get_by_role("tab", name="Python").click()
    expect(page).to_have_url(f"{site.url}?model=sigmoid&view=python")
    page.go_back()
    in_front("Run")
    page.go_back()
    expect(status(page)).to_contain_text("Closed")
    expect(page).to_have_url(site.url)
    page.go_forward()
    expect(status(page)).to_contain_text("sigmoid.pte loaded")
    page.go_forward()
    in_front("Python")
    page.get_by_role("link", name="Skip to inputs and outputs").focus()
    page.keyboard.press("Enter")  # another place of the page is no other program
    expect(page).to_have_url(f"{site.url}?model=sigmoid&view=python#work")
    page.go_back()
    expect(page).to_have_url(f"{site.url}?model=sigmoid&view=python")
    expect(status(page)).to_contain_text("sigmoid.pte loaded")


@pytest.mark.thorough
def test_back_while_a_program_is_opened_ends_that_and_leaves_nothing(
    page: Page, site: Site
) -> None:
    address = page.url
    page.route("**/samples/add.pte", lambda route: None)  # which nobody answers for now
    show_samples(page)
    page.locator("#gallery-list [data-name=add]").click()
    expect(status(page)).to_contain_text("Opening add.pte")
    page.go_back()
    expect(status(page)).to_contain_text("Opening was cancelled")
    expect(page).to_have_url(address)
    page.unroute("**/samples/add.pte")  # the held download goes on
    show_samples(page)
    page.locator("#gallery-list [data-name=sigmoid]").click()
    expect(status(page)).to_contain_text("sigmoid.pte loaded")
    page.go_back()
    expect(status(page)).to_contain_text("Closed")
    expect(page).to_have_url(address)


@pytest.mark.thorough
@pytest.mark.parametrize("ended", ["cancelled", "failed"])
def test_back_after_an_opening_that_came_to_nothing_goes_to_where_one_was_before(
    page: Page, ended: str
) -> None:
    gallery = page.url
    show_samples(page)
    page.locator("#gallery-list [data-name=sigmoid]").click()
    expect(status(page)).to_contain_text("sigmoid.pte loaded")
    if ended == "cancelled":
        page.route("**/samples/add.pte", lambda route: None)
        show_samples(page)
        page.locator("#gallery-list [data-name=add]").click()
        expect(status(page)).to_contain_text("Opening add.pte")
        page.get_by_role("button", name="Cancel").click()
        expect(status(page)).to_contain_text("Opening was cancelled")
        page.unroute("**/samples/add.pte")
    else:
        # An address that nothing answers at: the console says nothing, as it would of a 404.
        open_address(page, "data:,no program")
        expect(page.locator(".error")).to_be_visible()
        page.get_by_role("button", name="Dismiss").click()
        expect(page.locator(".error")).to_have_count(0)
    page.go_back()
    expect(status(page)).to_contain_text("Closed")
    expect(page).to_have_url(gallery)


def test_the_page_is_used_long_before_python_is_up(page: Page, site: Site) -> None:
    page.goto("data:text/html,another site")  # where Back leads to from the first entry of ours
    page.goto(site.url)
    show_samples(page)
    page.locator("#gallery-list [data-name=add]").click()
    page.go_back()
    wait_until_ready(page)
    ready = page.evaluate("performance.now()")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert paint < ready / 2
    expect(status(page)).to_contain_text("Opening was cancelled")
    expect(page).to_have_url(site.url)
    expect(page.locator("[data-act=close]")).to_have_count(0)
