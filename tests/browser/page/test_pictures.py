"""Pictures as inputs and outputs, in Chromium: large ones load at once and keep their pixels, are
enlarged with all of them, and several are answered at once."""

from __future__ import annotations

import csv
import struct
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from support.harness import limits
from support.page.page_visit import leave, payload, run, status
from support.write.pte_writer import GraphWriter, write_pte

MOST_SECONDS = 60  # to load a picture of 12 megapixels on a busy machine; it was minutes

# Files with pictures of 40 by 30 pixels, from black to white, and a file that is no picture.
DROP_PICTURES = """async (count) => {
  const transfer = new DataTransfer();
  for (let at = 0; at < count; at++) {
    const canvas = new OffscreenCanvas(40, 30);
    const ink = canvas.getContext("2d");
    ink.fillStyle = `rgb(${at * 5} ${at * 5} ${at * 5})`;
    ink.fillRect(0, 0, 40, 30);
    transfer.items.add(new File([await canvas.convertToBlob()], `grey-${at}.png`));
  }
  transfer.items.add(new File(["no picture"], "broken.png"));
  longTasks.length = 0;
  const how = { bubbles: true, cancelable: true, dataTransfer: transfer };
  document.querySelector("footer").dispatchEvent(new DragEvent("drop", how));
}"""

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

DROP_BROKEN = """() => {
  const transfer = new DataTransfer();
  transfer.items.add(new File(["no picture"], "broken.png"));
  const how = { bubbles: true, cancelable: true, dataTransfer: transfer };
  document.querySelector("#input-0").dispatchEvent(new DragEvent("drop", how));
}"""

WATCH_STATUS = """(line) => {
  window.told = [];
  new MutationObserver(() => told.push(line.textContent)).observe(line, { childList: true });
}"""


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
    assert max(page.evaluate("longTasks"), default=0) < limits.LONG_TASK_MS


@pytest.mark.thorough
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


def test_a_portrait_lies_exactly_over_its_input(page: Page) -> None:
    open_program(page, 1, 3, 670, 508)
    page.evaluate(DROP_PICTURE, ["#input-0", 508, 670, 50])
    run(page)
    page.get_by_role("button", name="Picture", exact=True).click()
    try:
        for width, height in ((1440, 1080), (1440, 900), (390, 844)):
            page.set_viewport_size({"width": width, "height": height})
            before, after = (
                page.locator(f".compare-pictures > {one}").bounding_box()
                for one in (".compare-before", ".rendered-picture")
            )
            assert before is not None
            assert before["height"] > before["width"]
            assert before == pytest.approx(after, abs=1)
    finally:
        page.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.thorough
def test_a_file_that_is_no_picture_is_told_where_it_can_be_seen(page: Page) -> None:
    open_program(page, 1, 3, 600, 1500)
    run(page)
    page.set_viewport_size({"width": 1280, "height": 600})
    try:
        page.locator("footer").scroll_into_view_if_needed()
        expect(page.locator("#input-0-preview")).not_to_be_in_viewport()
        page.evaluate(DROP_BROKEN)
        told = page.locator("#input-0-preview [role=alert]")
        expect(told).to_contain_text("the browser cannot read this picture")
        expect(told).to_be_in_viewport(ratio=1)
    finally:
        page.set_viewport_size({"width": 1280, "height": 900})


def scale_of(box: Locator) -> float:
    shown: float = box.evaluate(
        "one => one.firstElementChild.getBoundingClientRect().width / one.clientWidth"
    )
    return shown


def natural_width(page: Page, selector: str, width: int) -> None:
    page.wait_for_function(f"document.querySelector('{selector}')?.naturalWidth === {width}")


@pytest.mark.thorough
def test_pictures_are_enlarged_with_all_their_pixels(page: Page) -> None:
    open_program(page, 1, 3, 600, 1500)
    page.evaluate(DROP_PICTURE, ["#input-0", 1500, 600, 100])
    given = page.locator("#input-0-zoom")
    expect(given).to_be_visible()
    natural_width(page, "#input-0-zoom img", 500)  # shown with every third pixel
    given.hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, -240)
    page.keyboard.up("Control")
    natural_width(page, "#input-0-zoom img", 1500)
    assert scale_of(given) > 1.5
    given.dblclick()
    assert scale_of(given) == pytest.approx(1, abs=0.01)

    run(page)
    page.get_by_role("button", name="Picture", exact=True).click()
    shown = page.locator("#output-0-zoom")
    natural_width(page, "#output-0-zoom .rendered-picture", 1500)
    natural_width(page, ".compare-before", 750)  # of a picture below another, at most 1024 pixels
    shown.focus()
    for _ in range(3):
        page.keyboard.press("+")
    assert scale_of(shown) == pytest.approx(1.4**3, rel=0.01)
    natural_width(page, ".compare-before", 1500)
    place = "one => one.firstElementChild.getBoundingClientRect().x"
    before = shown.evaluate(place)
    page.keyboard.press("ArrowRight")
    assert shown.evaluate(place) == pytest.approx(before - 48)
    # Dragging moves an enlarged picture, not the edge between the two.
    edge = page.locator(".compare-edge")
    box = shown.bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] + 30, middle[1] + 10, steps=3)
    page.mouse.up()
    assert shown.evaluate(place) == pytest.approx(before - 18)
    expect(edge).to_have_value("50")
    # A new answer leaves it enlarged.
    run(page)
    assert scale_of(shown) == pytest.approx(1.4**3, rel=0.01)
    shown.focus()
    page.keyboard.press("0")
    assert scale_of(shown) == pytest.approx(1, abs=0.01)
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] - box["width"] / 4, middle[1], steps=3)
    page.mouse.up()
    expect(edge).to_have_value("25")


@pytest.mark.thorough
def test_two_fingers_enlarge_a_picture(page: Page) -> None:
    open_program(page, 1, 3, 64, 64)
    page.evaluate(DROP_PICTURE, ["#input-0", 64, 64, 8])
    given = page.locator("#input-0-zoom")
    expect(given).to_be_visible()
    box = given.bounding_box()
    assert box is not None
    touches = page.context.new_cdp_session(page)

    def touch(kind: str, *xs: float) -> None:
        y = box["y"] + box["height"] / 2
        points = [{"x": x, "y": y, "id": at} for at, x in enumerate(xs)]
        touches.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    middle = box["x"] + box["width"] / 2
    touch("touchStart", middle - 10, middle + 10)
    touch("touchMove", middle - 20, middle + 20)
    touch("touchMove", middle - 30, middle + 30)
    touch("touchEnd")
    assert 2 < scale_of(given) < 4


@pytest.mark.thorough
def test_several_pictures_are_answered_in_a_table(page: Page) -> None:
    open_program(page, 1, 3, 30, 40)
    page.evaluate(DROP_PICTURES, 40)
    expect(status(page)).to_contain_text("40 of 41 pictures answered")
    assert max(page.evaluate("longTasks"), default=0) < limits.LONG_TASK_MS
    rows = page.locator("#batch-rows tr")
    expect(rows).to_have_count(41)
    expect(rows.nth(20)).to_contain_text("mean 0.39216")  # 100 of 255
    expect(rows.last).to_contain_text("the browser cannot read this picture")
    assert rows.first.locator("img").evaluate("one => one.decode().then(() => true)")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save CSV").click()
    with download.value.path().open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["name"] for row in table][:2] == ["grey-0.png", "grey-1.png"]
    assert float(table[39]["output0 highest"]) == pytest.approx(195 / 255, abs=1e-4)
    page.get_by_role("button", name="grey-7.png").click()
    expect(page.locator("#input-0")).to_contain_text("from grey-7.png")
    page.evaluate(DROP_PICTURES, 900)
    page.locator("#batch").get_by_role("button", name="Cancel").click()
    expect(status(page)).to_contain_text("Cancelled")
    expect(page.locator("#batch").get_by_role("button", name="Save JSON")).to_be_visible()
    page.locator("#batch").get_by_role("button", name="Close").click()
    expect(page.locator("#batch")).to_be_empty()
