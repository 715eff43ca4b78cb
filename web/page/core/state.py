"""The state that controllers and views share: browser, engine, adapter, session, status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from page.browser import Browser
from page.core.palette import Commands
from page.core.session import Session
from page.core.store import Store
from page.core.throttle import Ticker
from page.core.undo import Undo
from page.shared.cards.cards import Card
from page.shared.html.errors import error_view, failure_text
from page.shared.html.markup import Html
from page.shared.html.units import count_text
from webpte import DeviceInfo
from webpte.compiling.read_compiled import CompiledFiles
from webpte.engine.call.call import reporting
from webpte.errors import DeviceLostError

HOME = "run"  # the view that is in front at the start
MOST_LOSSES = 2  # of the GPU, one after the other: then someone has to ask for a new one


class Change(Enum):
    """The kinds of changes that sections and views follow."""

    ADAPTER = auto()  # the adapter is known
    SESSION = auto()  # another program is open, or the same on another device, or none
    ADDRESS = auto()  # the same program was kept, and has an address now
    METHOD = auto()  # another method of the same program is chosen
    INPUTS = auto()  # an input has changed: comes with every key that is typed
    RESULTS = auto()  # there are new results, or the old ones are gone
    VIEW = auto()  # another view is in front
    BUSY = auto()  # work on the program has begun or ended
    COMPILED = auto()  # a compiled program is shown in the graph, or no longer
    OPENING = auto()  # a program is being opened, or that has ended


Follower = Callable[[Change], None]


class _CompileProgress:
    """The count of compiled kernels in the status line: "Answering: compiling kernels, 3 of 12".

    status  returns the line without that count
    show    puts a text into the line
    """

    def __init__(self, status: Callable[[], str], show: Callable[[str], None]) -> None:
        self._status, self._show = status, show
        self._done = self._total = 0
        self._ticker = Ticker(self._draw)

    def progress(self, stage: str, done: int, total: int) -> None:
        self._done, self._total = int(done), int(total)
        if self._done == self._total:
            self.end()
        else:
            self._ticker.start()

    def end(self) -> None:
        if self._ticker.stop():
            self._show(self._status())

    def _draw(self) -> None:
        count = f"{count_text(self._done)} of {count_text(self._total)}"
        self._show(f"{self._status()}: compiling kernels, {count}")


@dataclass(eq=False)
class AppState:
    browser: Browser
    engine: Any
    adapter: DeviceInfo | None = None
    adapter_known: asyncio.Event = field(default_factory=asyncio.Event)
    device: str = "webgpu"  # for the next program
    agent: str = ""  # the browser's name and version
    base: str = ""  # the page's address
    hash: str = ""  # the fragment of that address
    narrow: bool = False  # a small screen, where long lists start folded
    cards: Sequence[Card] = ()  # the usable cards of the gallery
    kept: frozenset[str] = frozenset()  # addresses of files that the library has
    room: int | None = None  # bytes that the library may still take; None while it is unknown
    session: Session | None = None
    compiled: CompiledFiles | None = None  # whose dispatches the graph shows
    tuning: bool = False  # kernels are being timed in the background
    opening: str = ""  # the name of the program that is being opened
    front: str = HOME  # the view that is in front
    status: str = ""  # the text of the status line
    followers: dict[Change, list[Follower]] = field(default_factory=dict)  # in their order
    commands: list[Commands] = field(default_factory=list)  # of the palette, in its order
    store: Store = field(init=False)  # from visit to visit
    tab_store: Store = field(init=False)  # for a reload of this tab
    undo: Undo = field(init=False)
    # The error on the page, and the task that failed.
    failure: tuple[str, Exception] | None = None
    # Builds the program of a session anew; the page does so by itself when the GPU is lost.
    rebuild: Callable[[Session], Coroutine[Any, Any, None]] | None = None

    def __post_init__(self) -> None:
        self.store = Store(self.browser)
        self.tab_store = Store(self.browser, "tab")
        self.undo = Undo(self.browser)
        self.commands.append(self.undo.commands)

    @property
    def limits(self) -> Mapping[str, int]:
        """The limits of the adapter; {} while it is unknown."""
        return self.adapter.limits if self.adapter is not None else {}

    def follow(self, follower: Follower, *changes: Change) -> None:
        """Call `follower` at each of these changes, after the followers that came earlier."""
        for change in changes:
            self.followers.setdefault(change, []).append(follower)

    def leave(self, follower: Follower, change: Change) -> None:
        """Call `follower` at a change no longer."""
        self.followers[change].remove(follower)

    def announce(self, change: Change) -> None:
        """Tell a change to the sections and views that follow it, and to no others."""
        for follower in tuple(self.followers.get(change, ())):
            follower(change)

    def show_compiled(self, compiled: CompiledFiles | None) -> None:
        """Show a compiled program in the graph, in place of the open program; None ends that."""
        if compiled is not self.compiled:
            self.compiled = compiled
            self.announce(Change.COMPILED)

    def tell(self, line: str, mood: str = "good") -> None:
        """Set the status line; its dot is green, amber ("busy") or red ("bad")."""
        self.status = line
        self.browser.show(text={"status": line}, mood=mood)

    def show(self, **sections: str) -> None:
        """Replace sections of the page by markup; an underscore stands for a dash."""
        if "error" in sections:
            self.failure = None
        self.browser.show(html={name.replace("_", "-"): html for name, html in sections.items()})

    def show_error(
        self,
        error: Exception,
        doing: str,
        actions: Mapping[str, str] | None = None,
        note: str = "",
        more: Html | None = None,
    ) -> None:
        """Show an error. `doing` names the task that failed; actions: act -> button; `note` lists
        unchanged things."""
        box = error_view(error, doing, actions, note, more)
        self.failure = doing, error
        self.browser.show(html={"error": box}, reveal="error")
        self.tell(failure_text(doing), "bad")

    def succeeded(self, doing: str) -> None:
        """Remove the error of earlier work of this kind, which the first word of `doing` tells."""
        if self.failure is not None and _kind(self.failure[0]) == _kind(doing):
            self.show(error="")

    # ---- one thing at a time on the program

    def idle_session(self) -> Session | None:
        """Return the session if nothing uses its program; else name the user in the status line."""
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
        redo: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        """Run work on the program of an idle session, with the buttons locked meanwhile.

        `can_stop`: the work checks `session.runner.stopping` and ends early. `at_once`: it may be
        cancelled at any point. `redo` makes the work that goes on after the GPU was lost and the
        program rebuilt; without it, someone has to ask again.
        """
        before = self.failure
        try:
            await self._work(session, work, doing, can_stop, at_once)
            session.losses = 0
            if self.failure is before:  # no error of a part of this work
                self.succeeded(doing)
            return
        except Exception as error:
            if session is not self.session:  # errors of a closed program are dropped
                return
            lost = isinstance(error, DeviceLostError)
            if not lost or self.rebuild is None or session.losses >= MOST_LOSSES:
                actions = {"recover": "Rebuild the program"} if lost else None
                self.show_error(error, doing, actions)
                return
        session.losses += 1
        if await self._rebuilt(session) and redo is not None and session is self.session:
            self.tell("GPU reset. Continuing", "busy")
            await self.do(session, redo(), doing, can_stop, at_once, redo)

    async def _rebuilt(self, session: Session) -> bool:
        """Rebuild the program of a session on a new device; return whether that worked."""
        assert self.rebuild is not None
        self.tell("GPU reset. Continuing …", "busy")
        doing = "rebuilding the program after the GPU was lost"
        try:
            await self._work(session, self.rebuild(session), doing, False, False)
        except Exception as error:
            if session is self.session:
                self.show_error(error, doing, {"recover": "Rebuild the program"})
            return False
        return True

    async def _work(
        self,
        session: Session,
        work: Coroutine[Any, Any, None],
        doing: str,
        can_stop: bool,
        at_once: bool,
    ) -> None:
        """Run work until it ends or is cancelled, with the count of compiled kernels shown."""
        compiling = _CompileProgress(lambda: self.status, self._show_line)
        with reporting(compiling.progress):  # the task inherits the context
            task = session.runner.start(work, doing, can_stop, at_once)
        self._note_busy(True)
        try:
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()
        finally:
            compiling.end()
            self._note_busy(False)

    def _note_busy(self, busy: bool) -> None:
        """Lock controls with `data-idle`, or unlock them, and announce that."""
        self.browser.show(busy=busy)
        self.announce(Change.BUSY)

    def _show_line(self, line: str) -> None:
        self.browser.show(text={"status": line})

    async def stop_runs(self, finish: bool = False) -> None:
        """Stop all work on the session's program, and wait for its end.

        With `finish` the current call completes: its result is still wanted.
        """
        while self.session is not None and self.session.runner.busy:
            await self.session.runner.stop(finish)


def _kind(doing: str) -> str:
    return doing.partition(" ")[0]
