"""A program chosen before Python is there: its input is used at once, and answered later.

A sample that was compiled is answered at once, too, and once more by Python.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from support.page.page_visit import START_MS, show_samples, status, wait_until_ready
from support.page.strokes import draw_one
from webpte_host.base.layout import WEB
from webpte_host.harness.browser import PageLog
from webpte_host.serving.gallery import gallery
from webpte_host.serving.routing import media_type
from webpte_host.serving.server import Site

# Collects the devices of the page's own thread, which Python does not use.
COUNT_DEVICES = """
globalThis.devices = [];
const { requestDevice } = GPUAdapter.prototype;
GPUAdapter.prototype.requestDevice = async function (...given) {
  const device = await requestDevice.apply(this, given);
  const destroy = device.destroy.bind(device);
  device.destroy = () => { device.isDestroyed = true; destroy(); };
  device.isDestroyed = false;
  devices.push(device);
  return device;
};
"""
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


@contextmanager
def without_python(page: Page) -> Iterator[None]:
    """Keep Python from the page, however long the block takes."""
    held: list[Route] = []
    is_over = False

    def hold(route: Route) -> None:
        if is_over:
            route.continue_()
        else:
            held.append(route)

    page.context.route(re.compile(r"/main\.py"), hold)
    yield
    is_over = True
    for route in held:
        route.continue_()


def state(page: Page) -> str | None:
    return page.locator("html").get_attribute("data-state")


def answers(page: Page, place: str) -> list[str]:
    """Return the lines of the answer that is shown in a place of the page."""
    names, numbers = (f"{place} .largest li .{name}" for name in ("label-name", "number"))
    expect(page.locator(names)).to_have_count(5)
    return page.locator(names).all_inner_texts() + page.locator(numbers).all_inner_texts()


def settled(page: Page) -> list[str]:
    """Return the early answer to a whole stroke; answers to parts of the stroke may come before."""
    found: list[str] = []
    while (now := answers(page, "#early")) != found:
        found = now
        page.wait_for_timeout(1000)
    return found


def draw_early(page: Page, site: Site) -> None:
    page.goto(f"{site.url}?model=digits", wait_until="commit")
    expect(page.locator("#early canvas.pad")).to_be_visible()
    draw_one(page, page.locator("#early canvas.pad"))


def wait_for_python(page: Page, site: Site) -> None:
    """Draw early, and see that only Python answers."""
    draw_early(page, site)
    expect(page.locator("#early-note")).to_contain_text("The answer comes")
    expect(page.locator("#early .outputs-none")).to_have_count(0)
    expect(status(page)).to_contain_text("Done: 1", timeout=START_MS)


def test_a_stroke_is_answered_before_python_is_there_and_again_after(
    page: Page, site: Site
) -> None:
    page.add_init_script(COUNT_DEVICES)
    with without_python(page):
        page.goto(f"{site.url}?model=digits", wait_until="commit")
        early = page.locator("#early")
        expect(early.get_by_role("heading", name="Draw a digit")).to_be_visible()
        expect(page).to_have_title("Draw a digit · webpte")
        expect(early.locator("canvas.pad")).to_be_visible()
        expect(early.locator(".early-head img")).to_be_visible()
        draw_one(page, page.locator("#early canvas.pad"))
        first = settled(page)
        assert first[0] == "1"
        expect(page.locator("#early-note")).to_be_empty()
        expect(page.locator("#boot")).to_contain_text(re.compile(r"Draw a digit: (\d+ % · )?\d+ s"))
        assert state(page) is None
    expect(status(page)).to_contain_text("Done: 1", timeout=START_MS)
    assert answers(page, "#outputs") == first
    expect(early).to_be_empty()
    expect(page.locator(".early-answer")).to_have_count(0)
    page.wait_for_function("devices.length === 1 && devices[0].isDestroyed")


def thorough(value: str) -> Any:
    return pytest.param(value, marks=pytest.mark.thorough)


BROKEN = {
    "its module": ("**/compiled/digits/index.js", "throw new Error('broken')"),
    "its description": ("**/compiled/digits/software.json", "{}"),
    "its weights": ("**/samples/digits.pte", "cut"),
}


@pytest.mark.parametrize(
    "broken", [thorough("its module"), "its description", thorough("its weights")]
)
def test_without_its_compiled_program_a_stroke_waits_for_python(
    page: Page, site: Site, broken: str
) -> None:
    address, body = BROKEN[broken]
    kind = media_type(address)
    log = PageLog(page)
    page.route(address, lambda route: route.fulfill(body=body, content_type=kind), times=1)
    wait_for_python(page, site)
    assert any("no answers before Python is there" in line for line in log.console)
    assert (log.errors, log.console_errors) == ([], [])


@pytest.mark.thorough
@pytest.mark.parametrize("missing", ["the compiled program", "WebGPU"])
def test_where_nothing_can_answer_a_stroke_waits_for_python(
    page: Page, site: Site, missing: str
) -> None:
    log = PageLog(page)
    if missing == "WebGPU":
        page.add_init_script("delete Navigator.prototype.gpu")
    else:
        cards = json.loads(gallery(WEB, None))
        page.route("**/gallery.json", lambda route: route.fulfill(json=cards))
    wait_for_python(page, site)
    assert (log.errors, log.console_errors) == ([], [])


@pytest.mark.thorough
def test_a_lost_device_leaves_the_answer_to_python(page: Page, site: Site) -> None:
    page.add_init_script(COUNT_DEVICES)
    with without_python(page):
        draw_early(page, site)
        assert answers(page, "#early")[0] == "1"
        page.evaluate("devices[0].destroy()")
        draw_one(page, page.locator("#early canvas.pad"))
        expect(page.locator("#early-note")).to_contain_text("The answer comes")
        expect(page.locator("#early .largest")).to_have_count(0)
    expect(status(page)).to_contain_text("Done: 1", timeout=START_MS)


@pytest.mark.thorough
def test_an_answer_is_taken_back_with_its_drawing(page: Page, site: Site) -> None:
    page.add_init_script(COUNT_DEVICES)
    with without_python(page):
        draw_early(page, site)
        assert answers(page, "#early")[0] == "1"
        page.locator("#early").get_by_role("button", name="Clear").click()
        expect(page.locator("#early .largest")).to_have_count(0)
        expect(page.locator("#early").get_by_text("The answer appears here.")).to_be_visible()
        draw_one(page, page.locator("#early canvas.pad"))
        assert answers(page, "#early")[0] == "1"
        page.locator("#early").get_by_role("button", name="Cancel").click()
        page.locator("#gallery-list [data-name=photo]").click()  # at once: its program has a device
        expect(page.locator("#early .early-answer canvas")).to_be_visible()
        page.locator("#early").get_by_role("button", name="Cancel").click()
        expect(page.locator("#early")).to_be_empty()
        page.wait_for_function("devices.every(({ isDestroyed }) => isDestroyed)")
        assert state(page) is None


@pytest.mark.thorough
def test_the_example_is_answered_before_python_is_there(page: Page, site: Site) -> None:
    with without_python(page):
        page.goto(f"{site.url}?model=photo", wait_until="commit")
        canvas = page.locator("#early .early-answer canvas")
        expect(canvas).to_be_visible()
        assert canvas.evaluate("({ width, height }) => [width, height]") == [352, 264]
        assert state(page) is None
    expect(page.locator("#outputs")).to_contain_text("352 × 264 pixels", timeout=START_MS)
    expect(page.locator(".early-answer")).to_have_count(0)


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
    expect(page).to_have_title("webpte: PyTorch models in your browser")
    expect(page.locator("#boot")).to_contain_text("Starting Python")
    wait_until_ready(page)
    expect(page.locator("[data-act=close]")).to_have_count(0)
    expect(page).to_have_url(site.url)


def test_a_start_that_fails_is_told_beside_the_input(browser: Browser, site: Site) -> None:
    page = browser.new_context().new_page()
    page.route("**/pyodide/pyodide.mjs", lambda route: route.abort())
    page.goto(f"{site.url}?model=digits")
    expect(page.locator("#early #boot-note")).to_contain_text("It did not start")
    expect(page.locator("#early #boot-note")).to_be_visible()
    expect(page.locator("#early canvas.pad")).to_be_visible()
    expect(status(page)).to_have_text("Python did not start")
    page.context.close()
