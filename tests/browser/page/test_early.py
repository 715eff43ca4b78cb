"""A program chosen before Python is there: its input is used at once, and answered later."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from support.page.page_visit import START_MS, show_samples, status, wait_until_ready
from support.page.strokes import draw_one
from webpte_host.harness.browser import PageLog
from webpte_host.serving.server import Site

TEN_MBIT = 10e6 / 8  # bytes per second
# As in a browser that allows no storage: the page's own thread, on which PyScript opens one, too.
NO_DATABASE = "Object.defineProperty(window, 'indexedDB', { configurable: true, value: undefined })"


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of a browser that has kept nothing."""
    page = browser.new_context().new_page()
    log = PageLog(page)
    yield page
    assert log.errors == []
    page.context.close()


def throttle(page: Page) -> None:
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    speed = {"downloadThroughput": TEN_MBIT, "uploadThroughput": TEN_MBIT}
    session.send("Network.emulateNetworkConditions", {"offline": False, "latency": 20, **speed})


def state(page: Page) -> str | None:
    return page.locator("html").get_attribute("data-state")


def test_a_stroke_drawn_while_python_is_fetched_is_answered(page: Page, site: Site) -> None:
    throttle(page)
    page.goto(f"{site.url}?model=digits", wait_until="commit")
    early = page.locator("#early")
    expect(early.get_by_role("heading", name="Draw a digit")).to_be_visible()
    expect(early.locator("canvas.pad")).to_be_visible()
    expect(early.locator(".early-head img")).to_be_visible()
    draw_one(page, page.locator("#early canvas.pad"))
    expect(page.locator("#early-note")).to_contain_text("The answer comes")
    expect(page.locator("#boot")).to_contain_text(
        re.compile(r"Draw a digit: \d+\.\d of \d+\.\d MB")
    )
    assert state(page) is None  # Python is far away
    expect(status(page)).to_contain_text("Done: 1", timeout=START_MS)
    expect(page.locator("#outputs .largest li").first).to_contain_text("1")
    expect(early).to_be_empty()


@pytest.mark.thorough
def test_a_question_sent_before_python_is_there_is_answered(page: Page, site: Site) -> None:
    page.goto(site.url, wait_until="commit")
    show_samples(page)
    page.get_by_role("button", name="Little stories", exact=True).click()
    field = page.locator("#early textarea")
    field.fill("What does a cow say?")
    field.press("Enter")
    expect(page.locator("#early .chat-user")).to_contain_text("What does a cow say?")
    field.fill("And a dog?")
    assert state(page) is None
    wait_until_ready(page)
    expect(page.locator("#view-chat .chat-user")).to_contain_text("What does a cow say?")
    expect(page.locator("#view-chat .chat-assistant .note")).to_contain_text("token")
    expect(page.locator("#chat-text")).to_have_value("And a dog?")
    expect(page.locator("#chat-text")).to_be_focused()


@pytest.mark.thorough
def test_a_picture_chosen_before_python_is_there_is_enlarged(page: Page, site: Site) -> None:
    page.goto(f"{site.url}?model=photo", wait_until="commit")
    expect(page.locator("#early img[alt='The example']")).to_be_visible()
    picture = page.evaluate("""async () => {
        const canvas = new OffscreenCanvas(24, 16);
        canvas.getContext("2d").fillRect(4, 4, 8, 8);
        const blob = await canvas.convertToBlob();
        return [...new Uint8Array(await blob.arrayBuffer())];
    }""")
    given = {"name": "small.png", "mimeType": "image/png", "buffer": bytes(picture)}
    page.locator("#early input[type=file]").set_input_files(given)  # type: ignore[arg-type]
    expect(page.locator("#early-shown img")).to_have_attribute("alt", "small.png")
    assert state(page) is None
    wait_until_ready(page)
    expect(page.locator("#outputs")).to_contain_text("32 × 48")


def test_an_address_may_have_a_percent_sign_of_its_own(page: Page, site: Site) -> None:
    slashes = "/" * 3
    page.goto(f"{site.url}?url={site.url}none/50%25.pte{slashes}", wait_until="commit")
    expect(page.locator("#early h2")).to_have_text("50%.pte")


@pytest.mark.thorough
def test_cancel_leads_back_to_the_samples(page: Page, site: Site) -> None:
    page.add_init_script(NO_DATABASE)
    page.goto(f"{site.url}?model=digits&view=graph", wait_until="commit")
    page.locator("#early").get_by_role("button", name="Cancel").click()
    expect(page.locator("#gallery-list")).to_be_visible()
    expect(page).to_have_url(site.url)
    page.locator("#gallery-list [data-name=add]").click()
    expect(page.locator("#early h2")).to_have_text("add")
    page.locator("#early").get_by_role("button", name="Cancel").click()
    expect(page.locator("#early")).to_be_empty()
    expect(page.locator("#boot")).to_contain_text("Starting Python")
    wait_until_ready(page)
    expect(page.locator("[data-act=close]")).to_have_count(0)
    expect(page).to_have_url(site.url)


def test_a_start_that_fails_is_told_beside_the_input(browser: Browser, site: Site) -> None:
    page = browser.new_context().new_page()
    page.route("**/pyscript/core.js", lambda route: route.abort())
    page.goto(f"{site.url}?model=digits")
    expect(page.locator("#early #boot-note")).to_contain_text("PyScript is missing")
    expect(page.locator("#early #boot-note")).to_be_visible()
    expect(page.locator("#early canvas.pad")).to_be_visible()
    expect(status(page)).to_have_text("Python did not start")
    page.context.close()
