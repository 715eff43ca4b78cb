"""Links that bring back the open program, its inputs and the view; and code that embeds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from urllib.parse import urlencode

from page.browser import Message
from page.core.palette import Command
from page.core.saved_inputs import SavedInputs
from page.core.state import AppState
from webpte.engine.open.library import LOCAL

_FRAME = (
    '<iframe src="{address}" title="{title}" width="100%" height="640" style="border: 0" '
    'allow="camera; microphone; clipboard-write; screen-wake-lock" loading="lazy"></iframe>'
)
Entry = tuple[str, str] | None  # ("model", name), ("url", address), or another that is no link


class ShareController:
    def __init__(self, state: AppState, saved: SavedInputs, entry: Callable[[], Entry]) -> None:
        """Build the controller; `entry` returns how the page's address names the program."""
        self._state = state
        self._saved = saved
        self._entry = entry
        state.commands.append(self._commands)

    def _commands(self) -> Iterator[Command]:
        if self._linked() is not None:
            yield Command("Copy link", "share", kind="Program", also="share url")
            yield Command("Copy embed code", "share-frame", kind="Program", also="share iframe")

    def _linked(self) -> Entry:
        entry = self._entry() if self._state.session is not None else None
        if entry is None or entry[0] not in ("model", "url") or entry[1].startswith(LOCAL):
            return None
        return entry

    def on_share(self, message: Message) -> None:
        """Copy a link to the page."""
        self._copy("", "Link copied", lambda link: link)

    def on_share_frame(self, message: Message) -> None:
        """Copy the code of a frame, for another site."""
        session = self._state.session
        card = session.source.card if session is not None else None
        name = session.source.name if session is not None else ""
        title = escape(card.title if card is not None else name)

        def frame(link: str) -> str:
            return _FRAME.format(address=escape(link), title=title)

        self._copy("embed.html", "Embed code copied", frame)

    def _copy(self, document: str, done: str, written: Callable[[str], str]) -> None:
        session, entry = self._state.session, self._linked()
        if session is None or entry is None:
            self._state.tell("A program without a URL cannot be shared as a link", "bad")
            return
        query = urlencode({entry[0]: entry[1], "view": self._state.front}, safe="/:")
        fragment = self._saved.fragment(session)
        link = self._state.browser.absolute(f"{document}?{query}") + fragment
        if not fragment and self._saved.has_inputs(session):
            done += ", without the inputs: they are too large for a link"
        self._state.browser.show(copy={"text": written(link), "done": done})
