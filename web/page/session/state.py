"""What the desks and views of the page share: the browser, the engine, the adapter, the session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from page.browser import Browser
from page.html.markup import Html
from page.parts.compiling import Compiling
from page.parts.status_view import error_view
from page.session.palette import Commands
from page.session.session import Session
from page.session.undo import Undo
from webpte import DeviceInfo
from webpte.errors import DeviceLostError
from webpte.runtime.base.call_context import reporting


class Change(Enum):
    """What can be another than it was; see `AppState.announce`."""

    ADAPTER = auto()  # the browser has told which there is
    SESSION = auto()  # another program is open, or the same on another device, or none
    ADDRESS = auto()  # the same program has an address now: it is kept
    METHOD = auto()  # another method of the same program is chosen
    INPUTS = auto()  # an input holds something else: comes with every key that is typed
    RESULTS = auto()  # there are new results, or none of what is set now
    VIEW = auto()  # another view is in front
    BUSY = auto()  # work on the program has begun or ended
    OPENING = auto()  # a program is being opened, or that has ended
    UNDO = auto()  # there is something that can be undone, or no longer


@dataclass(eq=False)
class AppState:
    browser: Browser
    engine: Any
    adapter: DeviceInfo | None = None
    adapter_known: asyncio.Event = field(default_factory=asyncio.Event)
    device: str = "webgpu"  # for the next program
    narrow: bool = False  # a small screen, where long lists start folded
    session: Session | None = None
    opening: str = ""  # the name of a program on its way, that will take the session's place
    front: str = "run"  # the view that is in front
    told: str = ""  # the line that says what goes on
    listeners: list[Callable[[Change], None]] = field(default_factory=list)
    remembered: dict[str, str] = field(default_factory=dict)  # by the browser, from visit to visit
    commands: list[Commands] = field(default_factory=list)  # of the palette, in its order
    undo: Undo = field(init=False)

    def __post_init__(self) -> None:
        self.undo = Undo(self.browser, changed=lambda: self.announce(Change.UNDO))
        self.commands.append(self.undo.commands)

    def announce(self, change: Change) -> None:
        for listener in self.listeners:
            listener(change)

    def remember(self, key: str, text: str) -> None:
        """For the next visit; "" forgets it."""
        if self.remembered.get(key, "") != text:
            self.remembered[key] = text
            self.browser.show(remember={"key": key, "text": text})

    def tell(self, line: str, mood: str = "good") -> None:
        """The one line that says what goes on; its dot is green, amber ("busy") or red ("bad")."""
        self.told = line
        self.browser.show(text={"status": line}, mood=mood)

    def show(self, **sections: str) -> None:
        """Section -> markup; an underscore stands for a dash."""
        self.browser.show(html={name.replace("_", "-"): html for name, html in sections.items()})

    def show_error(
        self,
        error: Exception,
        doing: str,
        actions: Mapping[str, str] | None = None,
        note: str = "",
        more: Html | None = None,
    ) -> None:
        """`doing` says what was under way; actions: act -> button; `note` says what still works."""
        box = error_view(error, doing, actions, note, more)
        self.browser.show(html={"error": box}, reveal="error")
        self.tell(f"{type(error).__name__}: see the message", "bad")

    # ---- one thing at a time on the program

    def idle_session(self) -> Session | None:
        """The session, if nothing uses its program; else what does is told."""
        session = self.session
        if session is not None and session.runner.busy:
            way = "wait for it, or cancel it" if session.runner.can_stop else "wait for it"
            self.tell(f"Still {session.runner.doing}: {way}", "busy")
            return None
        return session

    async def do(
        self,
        session: Session,
        work: Coroutine[Any, Any, None],
        doing: str,
        can_stop: bool = True,
        at_once: bool = False,
    ) -> None:
        """Work on the program of an idle session, with the buttons locked meanwhile.

        `can_stop`: the work ends early when it finds `session.runner.stopping`. `at_once`: it may
        be cancelled at any point, and leaves all in order.
        """
        compiling = Compiling(lambda: self.told, self._show_line)
        with reporting(compiling.progress):  # the task keeps what is set while it is made
            task = session.runner.start(work, doing, can_stop, at_once)
        self.announce(Change.BUSY)
        try:
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()
        except Exception as error:
            if session is self.session:  # what was closed has nothing to tell any more
                lost = isinstance(error, DeviceLostError)
                actions = {"recover": "Rebuild the program"} if lost else None
                self.show_error(error, doing, actions)
        finally:
            compiling.end()
            self.announce(Change.BUSY)

    def _show_line(self, line: str) -> None:
        self.browser.show(text={"status": line})

    async def stop_runs(self, finish: bool = False) -> None:
        """Nothing uses the session's program when this returns, until the caller waits again.

        With `finish` the call that runs now has its end: its result is still wanted.
        """
        while self.session is not None and self.session.runner.busy:
            await self.session.runner.stop(finish)
