"""The main screen in Chromium: an answer as one draws, with input and answer in sight."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import FloatRect, Page, ViewportSize, expect

from support.harness import extent
from support.page.page_visit import leave, open_sample, run, show_samples, status

SIZES = extent.some(
    [ViewportSize(width=1280, height=720), ViewportSize(width=390, height=844)],
    ViewportSize(width=1440, height=900),
)
# Whether the middle of an element can be clicked, or something else is above it.
IS_COVERED = """(one) => {
  const box = one.getBoundingClientRect();
  const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  return !one.contains(top);
}"""
HINT = "(one) => getComputedStyle(one, '::after').content"


@pytest.fixture
def page(started: Page) -> Iterator[Page]:
    yield started
    started.set_viewport_size({"width": 1280, "height": 900})
    leave(started)


def open_card(page: Page, name: str) -> None:
    show_samples(page)
    page.locator(f".entry[data-name={name}]").click()


def draw_seven(page: Page) -> None:
    box = box_of(page, "#inputs canvas.pad")
    x, y, side = box["x"], box["y"], box["width"]
    page.mouse.move(x + side * 0.35, y + side * 0.25)
    page.mouse.down()
    page.mouse.move(x + side * 0.65, y + side * 0.25, steps=6)
    page.mouse.move(x + side * 0.5, y + side * 0.8, steps=8)
    page.mouse.up()


def box_of(page: Page, selector: str) -> FloatRect:
    found = page.locator(selector).first.bounding_box()
    assert found is not None, selector
    return found


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["width"]))
def test_a_drawing_is_answered_in_sight(page: Page, size: ViewportSize) -> None:
    page.set_viewport_size(size)
    open_card(page, "digits")
    page.locator("#inputs canvas.pad").wait_for()
    assert page.locator(".pad-box").evaluate(HINT) == '"Draw here"'
    draw_seven(page)
    answer = page.locator(".largest li").first
    expect(answer).to_contain_text("7")
    assert page.locator(".pad-box").evaluate(HINT) == "none"
    expect(page.locator("#inputs canvas.pad")).to_be_in_viewport(ratio=1)
    expect(answer).to_be_in_viewport(ratio=1)
    pad, shown = box_of(page, "#inputs canvas.pad"), box_of(page, ".largest li")
    if size["width"] > 900:
        assert shown["x"] > pad["x"] + pad["width"]
    else:
        assert shown["y"] > pad["y"] + pad["height"]


@pytest.mark.thorough
@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["width"]))
def test_an_example_is_answered_in_sight(page: Page, size: ViewportSize) -> None:
    page.set_viewport_size(size)
    open_card(page, "photo")
    expect(page.locator(".rendered-picture").first).to_be_visible()
    expect(page.locator("#input-0 img").first).to_be_in_viewport(ratio=0.9)
    answer = box_of(page, ".rendered-picture")  # a part of it is clipped by the slider
    assert answer["y"] >= 0
    assert answer["y"] + answer["height"] / 2 <= size["height"]


@pytest.mark.thorough
@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["width"]))
def test_the_title_has_room_beside_the_choice_of_a_method(page: Page, size: ViewportSize) -> None:
    page.set_viewport_size(size)
    open_card(page, "teach")  # which has two methods
    expect(page.locator("#program select")).to_be_visible()
    title = page.locator("#program h2")
    assert title.evaluate("one => one.clientWidth >= one.scrollWidth"), title.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["digits", "teach"])  # teach has a choice of methods
def test_the_header_fits_and_its_status_is_readable_at_every_width(page: Page, name: str) -> None:
    def check(width: int) -> None:
        page.set_viewport_size({"width": width, "height": 800})
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{wide} px in a window of {width} px"
        assert box_of(page, "#status")["width"] >= 180, f"the status in a window of {width} px"
        title = page.locator("#program h2")
        if title.count():
            assert box_of(page, "#program h2")["width"] >= 80, f"the title at {width} px"

    for width in (320, 720, 1000):
        check(width)
    open_card(page, name)
    expect(page.locator("#program h2")).to_be_visible()
    for width in (320, 390, 700, 701, 720, 800, 850, 900, 999, 1000, 1199, 1200, 1280, 1440):
        check(width)


def test_on_a_phone_nothing_is_far_apart_and_nothing_touches(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    open_card(page, "notes")
    expect(page.locator("#outputs .outputs")).to_be_visible()
    page.get_by_role("button", name="Built-in test").click()
    expect(page.locator("#run-check .notice")).to_contain_text("Matches the reference")
    order = ("#inputs > .card", "#outputs .outputs", "#run-check button", "#run-check .notice")
    boxes = [box_of(page, one) for one in order]
    for name, above, below in zip(order[1:], boxes, boxes[1:], strict=False):
        gap = below["y"] - above["y"] - above["height"]
        assert 6 <= gap <= 40, f"{gap} px above {name}"


@pytest.mark.thorough
def test_what_was_open_before_a_reload_is_told_in_sight(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.evaluate("document.querySelector('#keep').innerHTML = '<p>It was open before.</p>'")
    expect(page.locator("#keep")).to_be_in_viewport(ratio=1)
    page.evaluate("document.querySelector('#keep').innerHTML = ''")


@pytest.mark.thorough
def test_no_button_is_below_the_run_bar(page: Page) -> None:
    page.set_viewport_size(SIZES[1])
    open_sample(page)
    run(page)
    for name in ("Compare with NumPy", "Profile kernels", "Benchmark"):
        button = page.get_by_role("button", name=name)
        button.scroll_into_view_if_needed()
        assert not button.evaluate(IS_COVERED), name


@pytest.mark.thorough
def test_a_long_status_moves_nothing(page: Page) -> None:
    open_sample(page)
    before = box_of(page, "#run")
    status(page).evaluate("(line) => { line.textContent = 'a long text '.repeat(60); }")
    assert box_of(page, "#run") == before
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.thorough
def test_a_pad_is_drawn_on_by_keys(page: Page) -> None:
    open_card(page, "digits")
    pad = page.locator("#inputs canvas.pad")
    pad.focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowUp", "Space", *["ArrowDown"] * 7, "Space"):
        page.keyboard.press(key)
    expect(page.locator(".largest li").first).to_contain_text("1")
    page.keyboard.press("Delete")
    expect(page.locator("#input-0-preview")).to_contain_text("Draw something first")


@pytest.mark.thorough
def test_a_drawing_stays_when_its_canvas_was_lost(page: Page) -> None:
    """A browser empties a canvas whose GPU process died, and says so."""
    open_card(page, "digits")
    pad = page.locator("#inputs canvas.pad")
    pixels = "one => [...one.getContext('2d').getImageData(0, 0, one.width, one.height).data]"
    lose = (
        "one => { one.getContext('2d').reset(); one.dispatchEvent(new Event('contextrestored')); }"
    )
    pad.focus()
    for key in ("ArrowUp", "Space", *["ArrowDown"] * 7, "Space"):
        page.keyboard.press(key)
    expect(page.locator(".largest li").first).to_contain_text("1")
    drawn = pad.evaluate(pixels)
    assert any(drawn)
    pad.evaluate(lose)
    assert pad.evaluate(pixels) == drawn
    page.keyboard.press("Delete")
    pad.evaluate(lose)
    assert not any(pad.evaluate(pixels))


@pytest.mark.thorough
def test_the_theme_is_chosen_where_its_field_has_no_room(page: Page) -> None:
    back = "getComputedStyle(document.documentElement).backgroundColor"
    open_card(page, "digits")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_label("Theme")).to_be_hidden()
    light, seen = page.evaluate(back), []
    for theme in ("dark", "light", "system"):
        page.keyboard.press("ControlOrMeta+k")
        page.keyboard.type(theme)
        first = page.locator("#palette-list [aria-selected=true]")
        expect(first).to_contain_text(f"Theme: {theme}")
        page.keyboard.press("Enter")
        seen.append(page.evaluate(back))
    assert seen[0] != light
    assert seen[1:] == [light, light]
    assert page.evaluate("localStorage.getItem('webpte theme')") is None


@pytest.mark.thorough
def test_a_theme_is_kept(page: Page) -> None:
    back = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(back)
    page.get_by_label("Theme").select_option("dark")
    assert page.evaluate(back) != light
    assert page.evaluate("localStorage.getItem('webpte theme')") == "dark"
    page.get_by_label("Theme").select_option("")
    assert page.evaluate(back) == light


def test_the_palette_opens_and_the_first_input_has_the_focus(page: Page) -> None:
    page.keyboard.press("ControlOrMeta+k")
    page.keyboard.type("draw a digit")
    page.keyboard.press("Enter")
    expect(page.locator("#inputs canvas.pad")).to_be_focused()


@pytest.mark.thorough
def test_before_and_after_are_one_picture(page: Page) -> None:
    open_card(page, "photo")
    edge = page.get_by_role("slider", name="Share of the picture that shows the input")
    edge.fill("100")
    pictures = page.locator(".compare-pictures")
    assert pictures.evaluate("one => one.style.getPropertyValue('--edge')") == "100%"
    # The corners of a preview whose height is limited are its own, and the slider is in sight.
    seen, shown = box_of(page, "#input-0-zoom"), box_of(page, "#input-0-zoom img")
    assert abs(seen["width"] - shown["width"]) < 1
    assert abs(shown["width"] / shown["height"] - 176 / 132) < 0.02
    page.set_viewport_size({"width": 1280, "height": 720})
    page.evaluate("scrollTo(0, 0)")
    for one in (edge, page.get_by_text("After", exact=True)):
        expect(one).to_be_in_viewport(ratio=1)


@pytest.mark.thorough
def test_an_outdated_answer_is_dimmed_while_the_next_is_computed(page: Page) -> None:
    open_card(page, "photo")
    outputs = page.locator("#outputs .outputs")
    expect(outputs).to_be_visible()
    page.evaluate("document.querySelector('#run-waiting').innerHTML = '<p>Computing</p>'")
    expect(outputs).to_have_css("opacity", "0.5")
    page.evaluate("document.querySelector('#run-waiting').innerHTML = ''")
    expect(outputs).to_have_css("opacity", "1")


@pytest.mark.thorough
def test_on_a_phone_a_program_is_shared(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    open_card(page, "notes")
    title = page.locator("#program h2")
    expect(title).to_have_text("Detect a note")
    assert title.evaluate("one => one.clientWidth >= one.scrollWidth")
    page.get_by_role("button", name="Share").click()
    expect(page.get_by_role("button", name="Copy embed code")).to_be_in_viewport(ratio=1)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Commands").click()
    expect(page.locator("#palette")).to_be_visible()
    page.keyboard.press("Escape")


@pytest.mark.thorough
def test_on_a_phone_the_undo_line_does_not_cover_the_composer(page: Page) -> None:
    open_card(page, "stories")
    expect(page.locator("#status")).to_contain_text("stories.pte loaded")  # then it may be asked
    page.locator("#chat-text").fill("Hello")
    page.locator("#chat-text").press("Enter")
    expect(page.locator("#status")).to_contain_text("Answered")
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator("#toast")).to_contain_text("Started a new conversation")
    assert not page.locator("#chat-text").evaluate(IS_COVERED)
    assert not page.get_by_role("button", name="Send").evaluate(IS_COVERED)
