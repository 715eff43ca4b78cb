"""Live runs: the program runs whenever an input has changed.

Never two at once: what changes while a run is under way starts the next one when it has ended, and
only the newest inputs count. A run that takes long is cancelled for newer inputs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from page.core.session import Held, Session
from page.core.state import HOME, AppState
from page.shared.cards.fills import CHOSEN
from page.shared.inputs.inputs import Input, TensorInput

LONG_SECONDS = 1.0  # a run that has taken longer is cancelled for newer inputs
_KEY, _OFF = "live", "off"  # in the store


class LiveRuns:
    def __init__(self, state: AppState, run: Callable[[Session], Awaitable[None]]) -> None:
        """Build them; `run` runs the program of an idle session once."""
        self._state = state
        self._run = run
        self.wanted = False  # the inputs have changed since the last run began
        self.running = False
        self._on: bool | None = None  # None until the store is asked
        self._task: asyncio.Future[None] | None = None
        # Of the last live run: the session, its inputs and the error.
        self._failure: tuple[Session, Held, str] | None = None
        self.ended: list[Callable[[], None]] = []  # called when all changes are answered

    @property
    def on(self) -> bool:
        if self._on is None:
            self._on = self._state.store.read(_KEY) != _OFF
        return self._on

    def switch(self) -> None:
        """Switch live runs on or off; the next visit finds them so."""
        self._on = not self.on
        self._state.store.write(_KEY, None if self._on else _OFF)
        self.follow()

    def can_follow(self, session: Session) -> bool:
        """Tell whether live runs are possible: a program with state would change by each."""
        return bool(session.method) and not session.stateful and bool(session.inputs)

    @property
    def active(self) -> bool:
        """Whether a change of an input is answered now. Other views run the program themselves."""
        session = self._state.session
        if session is None or self._state.front != HOME:
            return False
        return self.on and self.can_follow(session)

    def follow(self) -> None:
        """Run soon for the inputs as they are now."""
        session = self._state.session
        if session is None or not self.active:
            return
        self.wanted = True
        if self.running and session.runner.seconds > LONG_SECONDS:
            session.runner.cancel()
        if self._task is None:
            self._task = asyncio.ensure_future(self._keep_up())

    async def end(self) -> None:
        """Wait for the end of the current live run; no other follows."""
        self.wanted = False
        session = self._state.session
        if self.running and session is not None:
            await session.runner.wait()
            await asyncio.sleep(0)  # for the listeners of its end

    async def _keep_up(self) -> None:
        try:
            while self.wanted:
                session = self._state.session
                if session is None:
                    self.wanted = False
                elif session.runner.busy:
                    await session.runner.wait()
                    await asyncio.sleep(0)
                else:
                    self.wanted = False
                    if self._is_due(session):
                        await self._run_once(session)
        finally:
            self._task = None
            for listener in self.ended:
                listener()

    async def _run_once(self, session: Session) -> None:
        self.running = True
        try:
            await self._run(session)
        finally:
            self.running = False

    @property
    def is_due(self) -> bool:
        """Whether the inputs as they are now will be run."""
        session = self._state.session
        return session is not None and self.active and self._is_due(session)

    def _is_due(self, session: Session) -> bool:
        """Tell whether a run would say something new."""
        if any(state.error or _is_blank(state) for state in session.inputs):
            return False
        if not any(_is_given(state) for state in session.inputs):
            return False
        if self._failure is not None and self._failure[:2] == (session, session.held()):
            return False
        return session.shown is None or bool(session.age())

    def invitation(self, session: Session) -> str:
        """Say what leads to the first answer, which nothing else does by itself."""
        coming = any(_is_given(one) or _is_blank(one) or _is_coming(one) for one in session.inputs)
        follows = self.on and self.can_follow(session)
        if session.runner.busy or not session.method or (follows and coming):
            return "The answer appears here."
        return f"Press Run (Ctrl Enter){', or change an input' if follows else ''}."

    def has_failed_alike(self, session: Session, held: Held, error: Exception) -> bool:
        """Note a failure; return whether the live run before has failed in the same way."""
        before, told = self._failure, f"{type(error).__name__}: {error}"
        self._failure = session, held, told
        return before is not None and (before[0], before[2]) == (session, told)

    def forget_failure(self) -> bool:
        """Forget the last failure; return whether there was a failure."""
        failure, self._failure = self._failure, None
        return failure is not None


def _is_given(state: Input) -> bool:
    """Tell whether someone has set an input, or a card's example has."""
    return state.touched or (isinstance(state, TensorInput) and state.fill in CHOSEN)


def _is_coming(state: Input) -> bool:
    """Tell whether an example is on its way."""
    return isinstance(state, TensorInput) and state.awaits_picture


def _is_blank(state: Input) -> bool:
    return isinstance(state, TensorInput) and state.is_blank
