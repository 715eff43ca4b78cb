"""A program in a frame of another site: served, and as a static site with its service worker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, FrameLocator, Page, ViewportSize, expect

from support.page.page_visit import START_MS, forget, open_sample, status, visit
from support.page.static_site import static_host
from webpte_host.commands.build import build
from webpte_host.serving.server import Site

SHOWN = ViewportSize(width=800, height=760)


@pytest.fixture
def page(profile: BrowserContext, site: Site) -> Iterator[Page]:
    """A tab, with nothing kept of the program's inputs and of the looks of its output."""
    page = profile.new_page()
    page.set_viewport_size(SHOWN)
    forget(page, site)
    yield page
    page.close()


def embed(page: Page, folder: Path, code: str) -> FrameLocator:
    """Write a page with the frame's code, to be served from another port, and open it."""
    folder.mkdir(exist_ok=True)
    text = f'<!doctype html><title>Elsewhere</title><link rel="icon" href="data:,">{code}'
    (folder / "index.html").write_text(text)
    return page.frame_locator("iframe")


def frame_of(address: str) -> str:
    return f'<iframe src="{address}" title="Frame" width="760" height="700"></iframe>'


def draw(frame: FrameLocator) -> None:
    """Draw a one, and wait for the answer."""
    expect(frame.locator("html")).to_have_attribute(
        "data-state", re.compile("ready|failed"), timeout=START_MS
    )
    expect(frame.locator("#status")).to_contain_text("digits.pte loaded")
    pad = frame.locator("canvas.pad")
    box = pad.bounding_box()
    assert box is not None
    middle, side = box["width"] / 2, box["width"]
    # Unlike the page's mouse, this waits until the frame takes events, and not for ever.
    pad.drag_to(
        pad,
        source_position={"x": middle, "y": side * 0.2},
        target_position={"x": middle, "y": side * 0.8},
        steps=9,
    )
    expect(frame.locator("#outputs .largest li").first).to_contain_text("1")


def test_a_program_in_a_frame_of_another_site(page: Page, site: Site, tmp_path: Path) -> None:
    frame = embed(page, tmp_path, frame_of(f"{site.url}embed.html?model=digits&amp;theme=dark"))
    with static_host(tmp_path) as elsewhere:
        page.goto(elsewhere.url)
        draw(frame)
        # The input is left and the answer right; nothing of the page is around them.
        pad, answer = (frame.locator(one).bounding_box() for one in ("canvas.pad", "#outputs"))
        assert pad is not None
        assert answer is not None
        assert answer["x"] >= pad["x"] + pad["width"]
        for one in ("#tabs", "footer", "#run-more", "#about", "#drawer-button", "#palette-button"):
            expect(frame.locator(one)).to_be_hidden()
        expect(frame.locator("html")).to_have_attribute("data-theme", "dark")
        link = frame.get_by_role("link", name="Open in webpte")
        link.focus()
        expect(link).to_have_attribute(
            "href", re.compile(rf"^{re.escape(site.url)}\?model=digits&view=run")
        )
        width = "[document.documentElement.scrollWidth, innerWidth]"
        scroll, inner = frame.locator("body").evaluate(f"() => {width}")
        assert scroll <= inner


@pytest.mark.thorough
def test_a_frame_of_another_site_may_store_nothing(
    browser: Browser, site: Site, tmp_path: Path
) -> None:
    """A private window blocks storage of other sites; ports alone are the same site."""
    page = browser.new_context(viewport=SHOWN).new_page()
    frame = embed(page, tmp_path, frame_of(f"{site.url}embed.html?model=digits"))
    with static_host(tmp_path) as elsewhere:
        page.goto(elsewhere.url.replace("//localhost:", "//127.0.0.1:"))
        draw(frame)
    page.context.close()


def test_the_page_itself_is_not_framed(page: Page, site: Site, tmp_path: Path) -> None:
    embed(page, tmp_path, frame_of(f"{site.url}?model=digits"))
    with (
        static_host(tmp_path) as elsewhere,
        page.expect_console_message(lambda message: "frame-ancestors" in message.text),
    ):
        page.goto(elsewhere.url)


@pytest.mark.thorough
def test_a_static_site_in_a_frame(page: Page, tmp_path: Path) -> None:
    """The second visit comes from the service worker, whose headers allow frames."""
    build(tmp_path / "site", models=None)
    loads: list[str] = []
    with static_host(tmp_path / "site") as host, static_host(tmp_path) as elsewhere:
        page.on(
            "request", lambda one: loads.append(one.url) if one.is_navigation_request() else None
        )
        frame = embed(page, tmp_path, frame_of(f"{host.url}embed.html?model=digits"))
        page.goto(elsewhere.url)
        draw(frame)
        assert sum("embed.html" in url for url in loads) == 1  # it is not loaded twice
        page.reload()
        draw(frame)
        controlled = "() => Boolean(navigator.serviceWorker.controller)"
        assert frame.locator("body").evaluate(controlled)


@pytest.mark.thorough
def test_share_copies_a_link_and_the_code_of_a_frame(profile: BrowserContext, site: Site) -> None:
    with visit(profile, site) as page:
        open_sample(page)
        # Where the clipboard is not allowed, the selected text is copied.
        page.get_by_role("button", name="Share").click()
        page.get_by_role("button", name="Copy link").click()
        expect(status(page)).to_contain_text("Link copied")
        page.locator("#drawer-button").click()
        field = page.get_by_label("or enter a URL or name").first
        field.focus()
        page.keyboard.press("ControlOrMeta+v")
        expect(field).to_have_value(re.compile(rf"^{re.escape(site.url)}\?model=sigmoid&view=run"))
        page.locator("#drawer-button").click()
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Share").click()
        page.get_by_role("button", name="Copy embed code").click()
        expect(status(page)).to_contain_text("Code copied")
        code = page.evaluate("navigator.clipboard.readText()")
        assert code.startswith(f'<iframe src="{site.url}embed.html?model=sigmoid&amp;view=run')
        expect(page.get_by_role("dialog", name="Share")).to_be_hidden()
        page.get_by_role("button", name="Share").click()
        page.get_by_role("button", name="Copy link").click()
        expect(status(page)).to_contain_text("Link copied")
        page.context.clear_permissions()
