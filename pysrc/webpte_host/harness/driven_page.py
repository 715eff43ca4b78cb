"""A common interface to drive the page in Chromium and in Firefox.

`DrivenPage` lists the methods. `FirefoxPage` implements them over WebDriver BiDi, `ChromiumPage`
with Playwright.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page

_EXPECT_SECONDS = 120.0  # a software adapter on a busy machine


class DrivenPage(Protocol):
    """A tab that can be driven like a user's."""

    def goto(self, url: str, **_: object) -> None: ...

    def evaluate(self, function: str, argument: Any = None) -> Any: ...

    def wait_for(self, function: str, argument: Any = None) -> Any: ...

    def click(self, selector: str, text: str | None = None) -> None: ...

    def draw(self, selector: str, line: Sequence[tuple[float, float]]) -> None: ...

    def fill(self, selector: str, text: str) -> None: ...

    def press(self, *keys: str) -> None: ...

    def set_viewport(self, width: int, height: int) -> None: ...

    def picture(self, *, whole: bool = False) -> bytes: ...


class ChromiumPage:
    """A tab of Playwright's Chromium, with the methods of `FirefoxPage`."""

    def __init__(self, page: Page) -> None:
        self._page = page
        page.set_default_timeout(_EXPECT_SECONDS * 1000)

    def goto(self, url: str, **_: object) -> None:
        """Open an address and wait until the document and its scripts are loaded."""
        self._page.goto(url)

    def evaluate(self, function: str, argument: Any = None) -> Any:
        """Call a JavaScript function with an argument and await its result."""
        return self._page.evaluate(function, argument)

    def wait_for(self, function: str, argument: Any = None) -> Any:
        """Call a function until its result is true; raises after minutes."""
        end = time.monotonic() + _EXPECT_SECONDS
        while not (found := self.evaluate(function, argument)):
            if time.monotonic() > end:
                shown = self.evaluate("() => document.querySelector('#status')?.innerText")
                raise PlaywrightError(
                    f"not so within {_EXPECT_SECONDS:g} s: {function} with {argument!r}; "
                    f"the page's status is {shown!r}"
                )
            time.sleep(0.05)
        return found

    def click(self, selector: str, text: str | None = None) -> None:
        """Click the first visible element that matches a selector and contains a text."""
        found = self._page.locator(f"{selector}:visible")
        (found if text is None else found.filter(has_text=text)).first.click()

    def draw(self, selector: str, line: Sequence[tuple[float, float]]) -> None:
        """Draw a line with the pointer, between points in shares of an element's size."""
        pad = self._page.locator(selector).first
        pad.scroll_into_view_if_needed()
        box = pad.bounding_box()
        assert box is not None, selector
        mouse = self._page.mouse
        for number, (x, y) in enumerate(line):
            mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=3)
            if number == 0:
                mouse.down()
        mouse.up()

    def fill(self, selector: str, text: str) -> None:
        """Type a text into a field, replacing its content."""
        self._page.locator(selector).first.fill(text)
        self._page.locator(selector).first.focus()

    def press(self, *keys: str) -> None:
        """Press keys in order."""
        for key in keys:
            self._page.keyboard.press(key)

    def set_viewport(self, width: int, height: int) -> None:
        self._page.set_viewport_size({"width": width, "height": height})

    def picture(self, *, whole: bool = False) -> bytes:
        """Return a PNG of the window, or of the whole page, with the pointer out of the way."""
        self._page.mouse.move(0, 0)
        return self._page.screenshot(full_page=whole)
