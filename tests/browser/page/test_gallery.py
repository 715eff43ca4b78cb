"""The gallery in Chromium: a link, a card, a picture, a drawing, and an address to share."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect

from page.shared.outputs.pictures import png_rgb
from support.harness import limits
from support.page.page_visit import (
    START_MS,
    click_folded,
    downloaded,
    drop,
    leave,
    payload,
    run,
    show_samples,
    status,
)
from support.write.pte_writer import GraphWriter, write_pte


@pytest.fixture
def page(started: Page) -> Iterator[Page]:
    yield started
    leave(started)


def card(page: Page, name: str) -> None:
    show_samples(page)
    page.locator("#gallery-list").get_by_role("button", name=name, exact=True).click()
    expect(status(page)).to_contain_text(f"{name}.pte loaded")


def test_the_address_follows(page: Page) -> None:
    card(page, "add")
    expect(page).to_have_url(re.compile(r"\?model=add&view=run$"))
    opened = page.locator("#gallery-list [aria-current]")
    expect(opened).to_have_attribute("data-name", "add")
    page.locator("[data-act=close]").click()
    expect(page).to_have_url(re.compile(r"/$"))
    entry = page.locator("#gallery-list [data-name=sigmoid]")
    expect(entry).to_contain_text("1.34 KiB")
    expect(entry).to_have_attribute("title", re.compile("BSD-3-Clause$"))
    assert max(page.evaluate("longTasks.slice(-3)"), default=0) < limits.LONG_TASK_MS


@pytest.mark.thorough
def test_a_picture_goes_in_as_the_model_sees_it(page: Page) -> None:
    card(page, "superres")
    pixels = np.zeros((48, 40, 3), np.uint8)
    pixels[:, 20:] = (255, 51, 0)
    drop(page, "#input-0", ("photo.png", png_rgb(pixels)))
    expect(page.locator("#input-0")).to_contain_text("from photo.png")
    shown = page.get_by_alt_text("What the model sees")
    assert shown.evaluate("one => [one.naturalWidth, one.naturalHeight]") == [20, 24]
    page.get_by_label("scale pixels to").select_option("signed")
    expect(page.locator("#input-0-preview")).to_contain_text("-1 to 1")
    with page.expect_download() as download:
        click_folded(page, "save-input")
    array = np.load(download.value.path())
    np.testing.assert_allclose(array[0, :, 5, 3], [-1, -1, -1], atol=0.02)
    np.testing.assert_allclose(array[0, :, 5, 16], [1, -0.6, -1], atol=0.02)
    run(page)
    assert downloaded(page).shape == (1, 3, 48, 40)


def digits() -> bytes:
    """Build a program that returns its input of 16 by 16, so that drawings can be read back."""
    g = GraphWriter()
    x, y = g.tensor((1, 1, 16, 16)), g.tensor((1, 1, 16, 16))
    g.op("aten.relu.default", x, y)
    g.inputs(x)
    g.outputs(y)
    return write_pte(g)


def test_a_drawing_goes_in(page: Page) -> None:
    page.locator("[data-act=open-file]").set_input_files(payload("pad.pte", digits()))
    expect(status(page)).to_contain_text("pad.pte loaded")
    page.get_by_label("input values").select_option("draw")
    pad = page.locator("#inputs canvas.pad")
    box = pad.bounding_box()
    assert box is not None
    cell = box["width"] / 16
    page.mouse.move(box["x"] + 3.5 * cell, box["y"] + 8 * cell)
    page.mouse.down()
    page.mouse.move(box["x"] + 12.5 * cell, box["y"] + 8 * cell, steps=3)
    page.mouse.up()
    expect(page.locator("#input-0-preview")).to_contain_text("0 to 1")
    run(page)
    drawn = downloaded(page)[0, 0]
    assert drawn[7:9, 4:12].min() > 0.9
    assert drawn[:6].max() == drawn[10:].max() == 0
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#input-0-preview")).to_contain_text("0 to 0")


@pytest.mark.thorough
def test_after_a_reload_the_view_is_in_sight_and_typed_values_are_there(page: Page) -> None:
    card(page, "add")
    page.get_by_label("input values").nth(1).select_option("typed")
    page.get_by_label("values: one for all").fill("0.25 x")
    expect(page.locator("#input-1-preview")).to_contain_text("'x' is not a number")
    page.get_by_label("values: one for all").fill("0.25")
    expect(page.locator("#input-1-preview")).to_contain_text("0.25 to 0.25")
    page.get_by_role("tab", name="Python").click()
    expect(page).to_have_url(re.compile(r"\?model=add&view=python$"))
    page.set_viewport_size({"width": 360, "height": 800})
    page.reload()
    expect(status(page)).to_contain_text(re.compile("add.pte loaded|Done"), timeout=START_MS)
    expect(page.locator("#program h2")).to_be_in_viewport(ratio=1)
    expect(page.get_by_role("tab", name="Python")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tabpanel")).to_contain_text("samples/add.pte")
    page.get_by_role("tab", name="Run").click()
    expect(page).to_have_url(re.compile(r"\?model=add&view=run$"))
    expect(page.get_by_label("values: one for all")).to_have_value("0.25")
    run(page)
    page.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.thorough
def test_what_is_no_program_is_told(page: Page) -> None:
    drop(
        page, "footer", ("model.pte", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d")
    )
    expect(page.locator(".error")).to_contain_text("Git LFS pointer")
    page.get_by_role("button", name="Dismiss").click()


@pytest.mark.thorough
def test_a_misspelled_field_of_a_card_is_told_in_its_place(page: Page) -> None:
    def misspelled(route: Route) -> None:
        cards = route.fetch().json()
        slip = next(one for one in cards if one["name"] == "superres")
        slip["inputs"][0]["chanels"] = slip["inputs"][0].pop("channels")
        route.fulfill(json=cards)

    page.route("**/gallery.json", misspelled)
    page.goto(f"{page.url.partition('?')[0]}?model=superres")
    entry = page.locator("#gallery-list [data-name=superres]")
    expect(entry).to_contain_text("the card of superres cannot be used", timeout=START_MS)
    expect(entry).to_contain_text("inputs[0].chanels is not a field of a card")
    expect(entry).to_contain_text("Did you mean inputs[0].channels?")
    page.unroute("**/gallery.json")
    page.reload()
    expect(status(page)).to_contain_text("superres.pte loaded", timeout=START_MS)
    expect(entry).to_contain_text("An image in and a larger one out")


@pytest.mark.thorough  # tests/browser/page/test_site.py opens a link, too
def test_a_link_opens_a_view_with_its_title_in_sight(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto(f"{page.url.partition('?')[0]}?model=superres&view=python")
    expect(status(page)).to_contain_text("superres.pte loaded", timeout=START_MS)
    expect(page.locator("#program h2")).to_be_in_viewport(ratio=1)
    expect(page.get_by_role("tab", name="Python")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tabpanel")).to_contain_text("samples/superres.pte")
    page.get_by_role("tab", name="Run").click()
    expect(page).to_have_url(re.compile(r"\?model=superres&view=run$"))
    page.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.thorough
@pytest.mark.parametrize("width", [360, 2560])
def test_a_phone_and_a_wall(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    card(page, "superres")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # Run and the tabs are in sight at once, in spite of the parts between them.
    for one in (page.get_by_role("button", name=re.compile("^Run")), page.get_by_role("tab").first):
        expect(one).to_be_in_viewport(ratio=1)
    work = page.locator("#work").bounding_box()
    assert work is not None
    assert work["width"] > (300 if width == 360 else 1800)
    page.set_viewport_size({"width": 1280, "height": 900})
