"""Links that bring back the open program, its inputs and the view."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlencode

from page.browser import Message
from page.persistence.saved_inputs import SavedInputs
from page.session.palette import Command
from page.session.state import AppState

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
            yield Command("Copy a link with these inputs", "share")

    def _linked(self) -> Entry:
        entry = self._entry() if self._state.session is not None else None
        return entry if entry is not None and entry[0] in ("model", "url") else None

    def on_share(self, message: Message) -> None:
        session, entry = self._state.session, self._linked()
        if session is None or entry is None:
            self._state.tell("A program without a URL cannot be shared as a link", "bad")
            return
        query = urlencode({entry[0]: entry[1], "view": self._state.front}, safe="/:")
        fragment = self._saved.fragment(session)
        link = self._state.browser.absolute(f"?{query}") + fragment
        done = "The link is copied"
        if not fragment and self._saved.has_inputs(session):
            done += ", without the inputs: they are too large for a link"
        self._state.browser.show(copy={"text": link, "done": done})
