"""What was open when the page was reloaded: the method and the device of a program that its address
brings back, and the name of one that nothing brings back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from page.parts.library_view import missing_note
from page.session.session import Session
from page.session.state import AppState, Change


class LastSession:
    def __init__(self, stage: AppState) -> None:
        self._stage = stage
        self._last: Mapping[str, Any] = {}
        stage.listeners.append(self._follow)

    def take(self, last: object, linked: bool) -> None:
        """What the tab has remembered; `linked`: the page's address opens something."""
        if not isinstance(last, Mapping) or not isinstance(last.get("name"), str):
            return
        self._last = last
        if last.get("device") == "numpy":
            self._stage.device = "numpy"
        if not linked and not last.get("address"):
            self._stage.show(keep=missing_note(str(last["name"])))

    def recall(self, session: Session) -> None:
        """The method that was chosen, if this is the program of then; once."""
        last, self._last = self._last, {}
        method = last.get("method")
        if last.get("name") != session.source.name or method not in session.methods:
            return
        if not session.methods[str(method)].is_constant:
            session.choose(str(method))

    def _follow(self, change: Change) -> None:
        if change not in (Change.SESSION, Change.ADDRESS, Change.METHOD):
            return
        session = self._stage.session
        kept: dict[str, str] = {}
        if session is not None:
            kept = {
                "name": session.source.name,
                "address": session.source.address,
                "method": session.method,
                "device": session.device,
            }
        self._stage.browser.show(last=kept)
