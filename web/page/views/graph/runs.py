"""Runs of the graph view on the program: a trace for the times, and a run that keeps values."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from page.core.session import Session
from page.core.state import AppState
from page.shared.html.errors import causes
from page.views.graph.seen import SeenRun
from page.views.profile.shorter import traced_inputs


class _RunStoppedError(Exception):
    """The run was stopped; raised inside it, since it has no other way to end."""


class GraphRuns:
    """Runs for the graph view, and the values of the last one."""

    def __init__(self, state: AppState) -> None:
        self._state = state
        self._seen: SeenRun | None = None

    def forget(self) -> None:
        self._seen = None

    def seen(self, session: Session) -> SeenRun | None:
        """Return the values of the last run, unless inputs or state have changed since."""
        now = (session.held(), session.program.stats.executions)
        if self._seen is not None and (self._seen.held, self._seen.executions) != now:
            self._seen = None
        return self._seen

    async def measure(self) -> None:
        session = self._ready()
        if session is not None:
            await self._do(session, self._measure(session), "measuring")

    async def _measure(self, session: Session) -> None:
        traced, seen = traced_inputs(self._state, session), self.seen(session)
        arrays = [state.array() for state in traced.inputs]
        trace = await session.program.trace(session.method, *arrays)
        session.traces[session.method] = trace
        if seen is not None:  # a trace changes no state: the values are still valid
            self._seen = replace(seen, executions=session.program.stats.executions)
        told = "Measured" if trace.timed else "This adapter cannot time its kernels"
        self._state.tell(f"{told}. {traced.note}" if traced.note else told)

    async def see(self, nodes: list[int]) -> None:
        """Run the method once, and keep the values of these calls."""
        session = self._ready()
        if session is not None:
            await self._do(session, self._see(session, nodes), "looking at values")

    async def _see(self, session: Session, nodes: list[int]) -> None:
        held, known = session.held(), self.seen(session)
        arrays = [state.array() for state in session.inputs]

        def progress(_stage: str, _done: int, _total: int) -> None:
            if session.runner.stopping:
                raise _RunStoppedError

        try:
            values = await session.program.values(
                session.method, *arrays, nodes=nodes, progress=progress
            )
        except Exception as error:  # the run may have wrapped it
            if not any(isinstance(cause, _RunStoppedError) for cause in causes(error)):
                raise
            self._state.tell("Stopped: no values are shown")
            return
        before = known.calls if known is not None else {}
        executions = session.program.stats.executions  # nothing else has run meanwhile
        self._seen = SeenRun(held, executions, {**before, **values.calls})
        self._state.tell("Values of a run are shown")

    def _ready(self) -> Session | None:
        """Return the session if it can run with the current inputs; else show in the status the
        problem."""
        session = self._state.idle_session()
        problem = next((one for one in session.inputs if one.error), None) if session else None
        if problem is not None:
            self._state.tell(f"{problem.name} is not ready, see Run: {problem.error}", "bad")
            return None
        return session

    async def _do(self, session: Session, work: Coroutine[Any, Any, None], doing: str) -> None:
        """Run work on the program; the panel is redrawn when Change.BUSY is announced."""
        self._state.show(error="")
        self._state.tell(doing.capitalize(), "busy")
        await self._state.do(session, work, doing, can_stop=session.device != "numpy")
