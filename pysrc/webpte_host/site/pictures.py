"""`serve.py pictures`: takes the README's pictures of the page at work.

Each is a card of the gallery, a view, and actions in it. The page is the real one, in headless
Chromium; one visit takes all pictures, so that Python starts once.
"""

from __future__ import annotations

import argparse
import base64
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from webpte_host.base.layout import ROOT
from webpte_host.setup import chromium, environment

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WIDTH = 1280
_WAIT_MS = 300_000  # a software adapter on a busy machine
_SETTLE_MS = 1_500  # for the last drawing of the views' scripts

# Decodes a PNG to pixels, in the browser.
_DECODE = """async (png) => {
    const bytes = Uint8Array.from(atob(png), (letter) => letter.charCodeAt(0));
    const bitmap = await createImageBitmap(new Blob([bytes]));
    const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
    context.drawImage(bitmap, 0, 0);
    const { data, width, height } = context.getImageData(0, 0, bitmap.width, bitmap.height);
    const parts = [];
    for (let at = 0; at < data.length; at += 32768) {
        parts.push(String.fromCharCode(...data.subarray(at, at + 32768)));
    }
    return { width, height, data: btoa(parts.join("")) };
}"""


@dataclass(frozen=True)
class Shot:
    """A picture: `model` is the card's name, `act` performs the actions, `height` is in pixels."""

    name: str
    model: str
    view: str
    act: Callable[[Page], None]
    height: int = 900


def _wait_for_status(page: Page, text: str) -> None:
    page.locator("#status", has_text=text).wait_for(timeout=_WAIT_MS)


def _wait_for_end(page: Page, text: str) -> None:
    """Wait for the final status: "Traced …; measuring" is not the end."""
    page.locator("#status:not([data-mood=busy])", has_text=text).wait_for(timeout=_WAIT_MS)


def _chat(page: Page) -> None:
    message = page.get_by_label("Message", exact=True)
    for question in ("Hello! Who are you?", "Tell me a story about a robot and a fox."):
        message.fill(question)
        message.press("Enter")
        _wait_for_status(page, "Answering")
        _wait_for_end(page, "Answered")


def _run(page: Page) -> None:
    page.locator("#run-form [type=submit]").click()
    _wait_for_end(page, "Done")


def _graph(page: Page) -> None:
    page.locator("#view-graph:not(:empty)").wait_for(timeout=_WAIT_MS)


def trace(page: Page) -> None:
    page.locator("#view-profile button.primary").first.click()
    _wait_for_end(page, "Traced")


SHOTS = (
    Shot("chat", "stories", "chat", _chat, 1000),
    Shot("graph", "digits", "graph", _graph, 1000),
    Shot("profile", "digits", "profile", trace, 1100),
    Shot("photo", "photo", "run", _run, 1700),
)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="serve.py pictures", description=(__doc__ or "").split(": ", 1)[1]
    )
    parser.add_argument("names", nargs="*", help=f"of {', '.join(one.name for one in SHOTS)}")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="folder (%(default)s)")
    parser.add_argument("--adapter", choices=chromium.ADAPTERS, help="as for verify")
    options = parser.parse_args(arguments)
    unknown = {*options.names} - {one.name for one in SHOTS}
    if unknown:
        parser.error(f"there is no picture {', '.join(sorted(unknown))}")
    if not environment.inside():
        return environment.rerun_inside(["pictures", *arguments], with_browser=True)
    _take([one for one in SHOTS if one.name in (options.names or one.name)], options)
    return 0


def _take(shots: list[Shot], options: argparse.Namespace) -> None:
    from webpte_host.harness.browser import open_browser
    from webpte_host.serving.server import Site

    with Site() as site, open_browser(options.adapter) as browser:
        page = browser.new_page(color_scheme="light", reduced_motion="reduce")
        page.set_default_timeout(_WAIT_MS)
        page.goto(site.url)
        page.locator("html[data-state=ready]").wait_for()
        for shot in shots:
            png = _picture(browser, page, shot)
            path = options.out / f"{shot.name}.png"
            path.write_bytes(png)
            print(f"{path}: {len(png) / 1000:.0f} KB", flush=True)


def _picture(browser: Browser, page: Page, shot: Shot) -> bytes:
    import numpy as np  # only the environment has it

    from webpte_host.site import small_png

    page.set_viewport_size({"width": WIDTH, "height": shot.height})
    if page.locator("html[data-open]:not([data-drawer])").count():
        page.locator("#drawer-button").click()
    page.locator(f".entry[data-name={shot.model}]").click()
    _wait_for_status(page, f"{shot.model}.pte loaded")
    page.locator(f"#tab-{shot.view}").click()
    page.wait_for_timeout(_SETTLE_MS)
    shot.act(page)
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement?.blur(); scrollTo(0, 0)")
    page.wait_for_timeout(_SETTLE_MS)
    taken = base64.b64encode(page.screenshot()).decode()
    blank = browser.new_page()
    found = blank.evaluate(_DECODE, taken)
    blank.close()
    raw = np.frombuffer(base64.b64decode(found["data"]), np.uint8)
    return small_png.encode(raw.reshape(found["height"], found["width"], 4)[:, :, :3])
