"""Tuning in the background: offered on a GPU that nobody has measured, and dismissed for good."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from page.browser import Message
from page.core.palette import Command
from page.core.session import Session
from page.core.state import AppState, Change
from page.sections.tune.view import tune_offer, tune_progress, tuning_seconds
from webpte import DeviceInfo
from webpte.errors import ClosedError, WebpteError
from webpte.program import can_tune_now

REST = 0.2  # seconds that are left to other calls after each candidate


class TuneController:
    def __init__(self, state: AppState) -> None:
        self._state = state
        self._task: asyncio.Task[None] | None = None
        self._tuned: Session | None = None  # the session of the task
        self._progress = (0, 0)
        self._estimates = False  # whether the offer follows runs
        state.follow(self._follow, Change.SESSION)
        state.commands.append(self._commands)

    def _commands(self) -> Iterator[Command]:
        session = self._state.session
        if self._task is not None:
            yield Command("Stop tuning", "stop-tuning", kind="Run")
        elif session is not None and can_tune_now(session.program):
            yield Command("Tune kernels", "tune", view="run", kind="Run", also="perf speed faster")

    # ---- acts

    async def on_tune(self, message: Message) -> None:
        session = self._state.session
        if session is None or self._task is not None or not can_tune_now(session.program):
            return
        self._progress, self._tuned = (0, 0), session
        self._task = asyncio.ensure_future(self._tune(session))
        self._tell()
        try:
            await asyncio.wait({self._task})
        finally:
            self._task = self._tuned = None
            self._tell()

    def on_stop_tuning(self, message: Message) -> None:
        if self._task is not None:
            self._task.cancel()
            self._state.tell("Tuning stopped: nothing changed")

    def on_dismiss_tuning(self, message: Message) -> None:
        """Take the offer away, on this GPU for good; the palette has it still."""
        if self._state.session is not None:
            self._state.store.write(_key(self._state.session), "dismissed")
        self._draw()

    async def _tune(self, session: Session) -> None:
        def progress(stage: str, done: int, total: int) -> None:
            self._progress = int(done), int(total)
            self._draw()

        state = self._state
        try:
            found = await state.engine.tune(session.program, progress=progress, rest=REST)
        except ClosedError:
            return  # another program was opened meanwhile
        except WebpteError as error:
            if session is state.session:
                state.show_error(error, "tuning", note="Nothing changed.")
            return
        state.store.write(_key(session), "tuned")
        faster = sum(row.chosen != row.default for row in found.rows)
        if session is state.session:
            state.tell(f"Tuned: {faster} of {len(found.rows)} kernels have faster tiles now")

    # ---- drawing

    def _follow(self, change: Change) -> None:
        """End the tuning of another session; a program that can be tuned is asked after runs."""
        if self._task is not None and self._tuned is not self._state.session:
            self._task.cancel()
        session = self._state.session
        if self._estimates:
            self._state.leave(self._estimate, Change.BUSY)
        self._estimates = session is not None and _is_unmeasured(session.program.device_info)
        if self._estimates:
            self._state.follow(self._estimate, Change.BUSY)
        self._draw()

    def _tell(self) -> None:
        """Draw the progress, and announce that the GPU works or no longer does."""
        self._state.tuning = self._task is not None
        self._draw()
        self._state.announce(Change.BUSY)

    def _estimate(self, change: Change) -> None:
        self._draw()

    def _draw(self) -> None:
        session, line = self._state.session, ""
        if session is not None and self._task is not None and session is self._tuned:
            line = tune_progress(*self._progress)
        elif session is not None and self._is_offered(session):
            timing = session.runner.timing
            line = tune_offer(tuning_seconds(timing.first, timing.last, REST))
        self._state.show(run_tune=line)

    def _is_offered(self, session: Session) -> bool:
        asked = self._state.store.read(_key(session))
        return not asked and session.program.needs_tuning


def _key(session: Session) -> str:
    """Return where the answer for this adapter is kept."""
    info = session.program.device_info
    return f"tuning:{' '.join((info.kind, info.vendor, info.architecture, info.description))}"


def _is_unmeasured(info: DeviceInfo) -> bool:
    """Tell whether a program is on a GPU of a kind that nobody measured, where tuning may help."""
    return info.kind != "numpy" and not info.software and not info.adapter_class.measured
