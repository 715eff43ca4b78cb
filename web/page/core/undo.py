"""Undo of one step: the last thing that was closed or cleared, until another takes its place.

A line at the edge of the page offers it, with a button. The line fades, but the offer stays in the
palette and for Ctrl Z.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from page.browser import Browser, Message
from page.core.palette import Command
from page.shared.html.markup import Html, h

UNDO_ID = "undo"
_TOAST = "toast"
Back = Callable[[], Awaitable[object] | None]


@dataclass(frozen=True)
class _Offer:
    text: str
    back: Back


class Undo:
    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._offer: _Offer | None = None
        self._number = 0  # a line that follows another is a new one, and fades anew

    def offer(self, text: str, back: Back) -> None:
        """Offer to undo: `text` is a sentence that names the removed thing, `back` restores it."""
        self._offer = _Offer(text, back)
        self._number += 1
        # Whoever pressed a button that is gone with all the rest goes on from here.
        self._browser.show(html={_TOAST: _toast(text, self._number)}, rescue=UNDO_ID)

    def forget(self) -> None:
        """Withdraw the offer."""
        if self._offer is not None:
            self._offer = None
            self._browser.show(html={_TOAST: ""})

    def commands(self) -> Iterator[Command]:
        if self._offer is not None:
            yield Command(f"Undo: {self._offer.text}", "undo", keys="Ctrl Z")

    # ---- acts

    async def on_undo(self, message: Message) -> None:
        offer = self._offer
        self.forget()
        if offer is not None:
            done = offer.back()
            if done is not None:
                await done

    def on_forget_undo(self, message: Message) -> None:
        self.forget()


def _toast(text: str, number: int) -> Html:
    return h(
        "div",
        h("p", text),
        h("button", "Undo", type="button", id=UNDO_ID, data_act="undo"),
        h(
            "button",
            "×",
            type="button",
            class_="quiet",
            data_act="forget-undo",
            aria_label="Hide this",
        ),
        id=f"{_TOAST}-{number}",
        class_="toast",
    )
