"""Pictures as inputs and outputs, in Chromium: large ones load at once and keep their pixels."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.page.page_visit import leave, payload, status, visit
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.serving.server import Site

LONG_MS = 100  # a task of the page itself on the main thread
MOST_SECONDS = 20  # to load a picture of 12 megapixels on a busy machine; it was minutes

# A file with a picture of this size, drawn by the browser, that is dropped onto an element.
DROP_PICTURE = """async ([selector, width, height, stripes]) => {
  const canvas = new OffscreenCanvas(width, height);
  const ink = canvas.getContext("2d");
  for (let at = 0; at < width; at += stripes) {
    ink.fillStyle = (at / stripes) % 2 ? "white" : "black";
    ink.fillRect(at, 0, stripes, height);
  }
  const blob = await canvas.convertToBlob({ type: "image/png" });
  const transfer = new DataTransfer();
  transfer.items.add(new File([blob], "photo.png"));
  const at = document.querySelector(selector);
  longTasks.length = 0;
  const how = { bubbles: true, cancelable: true, dataTransfer: transfer };
  at.dispatchEvent(new DragEvent("drop", how));
}"""

WATCH_STATUS = """(line) => {
  window.told = [];
  new MutationObserver(() => told.push(line.textContent)).observe(line, { childList: true });
}"""


@pytest.fixture(scope="module")
def started(profile: BrowserContext, site: Site) -> Iterator[Page]:
    """One page for the whole file: Python starts once."""
    with visit(profile, site) as page:
        yield page


@pytest.fixture
def page(started: Page) -> Iterator[Page]:
    yield started
    leave(started)


def open_program(page: Page, *shape: int) -> None:
    """Build a program that returns its input, where that is positive."""
    g = GraphWriter()
    x, y = g.tensor(shape), g.tensor(shape)
    g.op("aten.relu.default", x, y)
    g.inputs(x)
    g.outputs(y)
    page.locator("[data-act=open-file]").set_input_files(payload("same.pte", write_pte(g)))
    expect(status(page)).to_contain_text("same.pte loaded")


def test_a_large_photo_loads_without_blocking_the_page(page: Page) -> None:
    open_program(page, 1, 3, 900, 1200)
    status(page).evaluate(WATCH_STATUS)
    began = time.monotonic()
    page.evaluate(DROP_PICTURE, ["#input-0", 4000, 3000, 1000])
    expect(page.locator("#input-0-preview")).to_contain_text("from photo.png")
    assert time.monotonic() - began < MOST_SECONDS
    assert page.evaluate("told[0]") == "Loading photo.png"
    assert max(page.evaluate("longTasks"), default=0) < LONG_MS


def test_a_picture_over_a_thousand_pixels_keeps_its_proportions(page: Page) -> None:
    open_program(page, 1, 3, 600, 1500)
    page.evaluate(DROP_PICTURE, ["#input-0", 1500, 600, 100])
    page.locator("#run").get_by_role("button", name="Run").first.click()
    page.get_by_role("button", name="Picture", exact=True).click()
    image = page.locator(".rendered-picture")
    expect(image).to_be_visible()
    page.wait_for_function("document.querySelector('.rendered-picture').naturalWidth === 1500")
    assert image.evaluate("one => [one.naturalWidth, one.naturalHeight]") == [1500, 600]
    with page.expect_download() as download:
        page.get_by_role("button", name="Download .png").click()
    head = download.value.path().read_bytes()[:24]
    assert struct.unpack(">II", head[16:24]) == (1500, 600)
