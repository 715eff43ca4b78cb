"""The profile in Chromium: a run traced on WebGPU, inspected by pointer and keys, and saved."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from support.page.page_visit import leave, status
from webpte_host.harness.driven_page import ChromiumPage
from webpte_host.serving.server import Site
from webpte_host.site import scenes


@pytest.fixture
def page(started: Page) -> Iterator[Page]:
    yield started
    leave(started)


def saved(page: Page, panel: Locator, button: str) -> Any:
    with page.expect_download() as download:
        panel.get_by_role("button", name=button).click()
    return json.loads(Path(download.value.path()).read_text())


def test_a_run_is_traced_looked_at_and_kept(page: Page) -> None:
    page.locator(".entry[data-name=digits]").click()
    page.get_by_role("tab", name="Profile").click()
    panel = page.get_by_role("tabpanel", name="Profile")
    expect(panel.get_by_role("heading", name="GPU memory")).to_be_visible()
    expect(panel.get_by_text("maxBufferSize")).to_be_visible()
    expect(panel.locator("button.primary").first).to_have_text("Record a trace")
    scenes.trace(ChromiumPage(page))  # waits for all that comes of it, as for pictures
    assert status(page).get_attribute("data-mood") == "good"
    assert re.fullmatch("Traced: first run [^;]*", status(page).inner_text())
    box = panel.get_by_role("group", name=re.compile("^Timeline of a run"))
    told = panel.locator("#profile-time-told")
    box.locator("rect").last.hover()
    expect(told).to_contain_text("kernel")
    box.focus()
    page.keyboard.press("Home")
    expect(told).to_contain_text("prepare")
    page.keyboard.press("ArrowRight")
    expect(told).not_to_contain_text("prepare")

    before = box.evaluate("one => one.scrollWidth")
    marks = panel.locator("#profile-time-ruler span")
    expect(marks.first).to_have_text(re.compile("^0 "))
    panel.get_by_role("button", name="Zoom in").click()
    assert box.evaluate("one => one.scrollWidth") > 1.5 * before
    box.focus()
    page.keyboard.press("w")
    assert box.evaluate("one => one.scrollWidth") > 2.5 * before
    at = box.evaluate("one => one.scrollLeft")
    page.keyboard.press("d")
    assert box.evaluate("one => one.scrollLeft") > at
    expect(marks.first).not_to_have_text(re.compile("^0 "))
    page.keyboard.press("0")
    assert box.evaluate("one => one.scrollWidth") == before

    panel.get_by_label("Table by").select_option("op")
    table = panel.get_by_role("table", name=re.compile("by op"))
    expect(table.get_by_role("row").filter(has_text="conv").first).to_be_visible()
    trace = saved(page, panel, "Save JSON")
    events = saved(page, panel, "Save for Perfetto")["traceEvents"]
    kernels = [event for event in events if event.get("cat", "").startswith("kernel")]
    assert kernels
    assert trace["device"] == "webgpu"
    clock = panel.get_by_text("No GPU clock")
    expect(clock).to_have_count(0 if trace["timed"] else 1)

    panel.get_by_role("button", name="Pin this run").click()
    expect(panel.get_by_role("button", name="Unpin all")).to_be_visible()
    panel.locator("select[name=run]").select_option("first")
    # Both runs are on one axis, so they zoom and move together.
    stacked = panel.get_by_role("group", name=re.compile("^Timeline of 2 runs"))
    expect(stacked.locator("rect title").first).to_have_text(re.compile("^A: "))
    expect(stacked.locator("rect title").last).to_have_text(re.compile("^B: "))
    width = stacked.evaluate("one => one.scrollWidth")
    stacked.focus()
    page.keyboard.press("w")
    assert stacked.evaluate("one => one.scrollWidth") > 1.2 * width
    place = stacked.bounding_box()
    assert place is not None
    at = stacked.evaluate("one => one.scrollLeft")
    middle = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] - 40, middle[1], steps=4)
    page.mouse.up()
    assert stacked.evaluate("one => one.scrollLeft") > at
    page.keyboard.press("0")
    pair = panel.get_by_role("table", name=re.compile("^A and B by op"))
    expect(pair.get_by_role("row").filter(has_text="conv").first).to_be_visible()
    if trace["timed"]:
        expect(panel.get_by_text("Measured here: this adapter moves")).to_be_visible()

    # From a kernel to its call, and back by the browser's history.
    row = table.get_by_role("button", name="et_vk.conv_with_clamp.default")
    row.click()
    expect(page.locator("#graph-inside h3").first).to_contain_text("conv_with_clamp")
    expect(page.get_by_role("tab", name="Graph")).to_have_attribute("aria-selected", "true")
    page.go_back()
    expect(row).to_be_visible()
    stacked.locator("rect[data-node]").last.click()
    expect(page.locator("#graph-inside h3").first).to_contain_text("softmax")
    page.go_back()

    page.set_viewport_size({"width": 360, "height": 740})
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 360


PERFETTO = """<!doctype html><script>
addEventListener("message", ({ source, origin, data }) => {
    if (data === "PING") source.postMessage("PONG", origin);
    else document.title = data.perfetto.title + new TextDecoder().decode(data.perfetto.buffer);
});
</script>"""
TRACE = {"text": '{"traceEvents": []}', "title": "a.pte", "name": "a.perfetto.json"}
SEND = """(trace) => new Promise((resolve) => {
    const panel = document.body;
    panel.innerHTML = "<button data-perfetto>Open in Perfetto</button>";
    import("./page/views/profile/profile.js").then(({ show }) => {
        const tell = (name, more) => {
            if (name === "open_perfetto") show(panel, { perfetto: trace }, tell);
            else window.told = more;
        };
        show(panel, {}, tell);
        resolve();
    });
})"""


def answering(body: str, headers: dict[str, str]) -> Callable[[Route], None]:
    def answer(route: Route) -> None:
        route.fulfill(body=body, headers=headers)

    return answer


@pytest.mark.thorough
def test_a_trace_is_sent_to_perfetto_or_downloaded(browser: Browser, site: Site) -> None:
    page = browser.new_page()
    for isolated in (False, True):
        address = f"{site.url}{'isolated' if isolated else 'bare'}.html"
        policy = {
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Embedder-Policy": "require-corp",
        }
        headers = {"Content-Type": "text/html", **(policy if isolated else {})}
        page.route(address, answering("<body>", headers))
        page.goto(address)
        page.evaluate(SEND, TRACE)
        page.context.route(
            "https://ui.perfetto.dev/**",
            lambda route: route.fulfill(body=PERFETTO, content_type="text/html"),
        )
        if isolated:
            with page.expect_download() as saved:
                page.get_by_role("button", name="Open in Perfetto").click()
            assert Path(saved.value.path()).read_text() == TRACE["text"]
        else:
            with page.context.expect_page() as opened:
                page.get_by_role("button", name="Open in Perfetto").click()
            expect(opened.value).to_have_title(TRACE["title"] + TRACE["text"])
        page.wait_for_function("window.told")
        assert page.evaluate("told") == {"sent": not isolated}
    page.close()
