"""The program that was open when the page was reloaded: its method and device are restored.

A program that was dropped has no address to open it from: the page says that it was open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from page.core.session import Session
from page.core.state import AppState, Change
from page.shared.html.markup import Html, h

_KEY = "session"


class LastProgram:
    """The name, address, method and device of the open program, kept for a reload of this tab."""

    def __init__(self, state: AppState) -> None:
        self._state = state
        self._last: Mapping[str, Any] = {}
        state.follow(self._follow, Change.SESSION, Change.ADDRESS, Change.METHOD)

    def load(self, linked: bool) -> None:
        """Read the program before the reload; `linked`: the page's address opens a program."""
        last = self._state.tab_store.read(_KEY)
        if not isinstance(last, Mapping) or not isinstance(last.get("name"), str):
            return
        self._last = last
        if last.get("device") == "numpy":
            self._state.device = "numpy"
        if not linked and not last.get("address"):
            self._state.show(keep=_missing_note(str(last["name"])))

    def restore(self, session: Session) -> None:
        """Choose the method of before the reload, if this is the same program; only once."""
        last, self._last = self._last, {}
        method = last.get("method")
        if last.get("name") != session.source.name or method not in session.methods:
            return
        if not session.methods[str(method)].is_constant:
            session.choose(str(method))

    def _follow(self, change: Change) -> None:
        session = self._state.session
        values: dict[str, str] = {}
        if session is not None:
            values = {
                "name": session.source.name,
                "address": session.source.address,
                "method": session.method,
                "device": session.device,
            }
        self._state.tab_store.write(_KEY, values)


def _missing_note(name: str) -> Html:
    """Return the note that names the local program that was open before a reload."""
    return h(
        "p",
        f"{name} was open before the reload. It is a local file, which the page cannot open on its "
        "own: drop or choose it again to continue with the same inputs.",
        class_="card keep",
        role="status",
    )
