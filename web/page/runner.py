"""Runs a method once and then again and again, and keeps the times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from time import perf_counter
from typing import Any

from page.input_view import Timing
from page.units import ms_text
from webpte import Program


class Runner:
    """One thing at a time: while `busy`, nothing else may use the program."""

    def __init__(self) -> None:
        self.timing = Timing()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def busy(self) -> bool:
        return self._task is not None

    def reset(self, timing: Timing | None = None) -> None:
        """Forgets the runs; the load's time stays, unless there is a new one."""
        known = timing or self.timing
        self.timing = Timing(load=known.load, stages=known.stages)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Busy from now on, until `work` has ended."""
        self._stopping = False
        self._task = asyncio.ensure_future(work)
        self._task.add_done_callback(self._end)
        return self._task

    def _end(self, task: asyncio.Task[None]) -> None:
        self._task = None

    def cancel(self) -> None:
        """Ends the repeats after the one that is under way."""
        self._stopping = True

    async def stop(self) -> None:
        """`cancel`, and wait until nothing runs any more."""
        self._stopping = True
        if self._task is not None:
            await asyncio.wait({self._task})

    async def first(self, program: Program, method: str, arrays: Sequence[Any]) -> tuple[Any, ...]:
        started = perf_counter()
        values = await program.run(method, *arrays)
        self.timing.first = 1000 * (perf_counter() - started)
        return values

    async def repeat(
        self,
        program: Program,
        method: str,
        arrays: Sequence[Any],
        wanted: int,
        tick: Callable[[], None],
    ) -> None:
        """`tick` is called after every run."""
        self.timing.wanted = wanted
        for _ in range(wanted):
            # Lets messages in: on NumPy a run never waits for anything.
            await asyncio.sleep(0)
            if self._stopping:
                return
            started = perf_counter()
            await program.run(method, *arrays)
            self.timing.repeats.append(1000 * (perf_counter() - started))
            tick()

    def summary(self) -> str:
        timing = self.timing
        told = f"Done: first run {ms_text(timing.first or 0)}"
        if timing.median is not None:
            told += f", then {ms_text(timing.median)}, median of {len(timing.repeats)}"
        return told + (" (stopped early)" if len(timing.repeats) < timing.wanted else "")
