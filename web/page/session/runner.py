"""The runner of a session: one task at a time uses the program, and its times are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from time import perf_counter
from typing import Any

from page.browser import Progress
from page.html.units import ms_text
from page.parts.run_view import Timing
from webpte import Program


class Runner:
    """The lock on a program: while `busy`, nothing else may use it; `doing` says why."""

    def __init__(self) -> None:
        self.timing = Timing()
        self.doing = ""
        self.can_stop = False  # before it ends
        self._at_once = False
        self.stopping = False
        self._task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        return self._task is not None

    def reset(self) -> None:
        """Drop the times of runs; that of the load stays."""
        self.timing = Timing(load=self.timing.load, stages=self.timing.stages)

    def start(
        self, work: Coroutine[Any, Any, None], doing: str, can_stop: bool, at_once: bool = False
    ) -> asyncio.Task[None]:
        """Start `work` and be busy until it ends. `can_stop`: it checks `stopping`; `at_once`: it
        can be cancelled anywhere."""
        assert self._task is None, f"{doing} while {self.doing}"
        self.stopping, self.doing, self.can_stop = False, doing, can_stop
        self._at_once = at_once
        self._task = asyncio.ensure_future(work)
        self._task.add_done_callback(self._end)
        return self._task

    def _end(self, task: asyncio.Task[None]) -> None:
        self._task = None

    def cancel(self) -> bool:
        """End the work, after the current call if it must; return whether at once."""
        self.stopping = True
        if self._at_once and self._task is not None:
            self._task.cancel()
        return self._at_once

    async def stop(self, finish: bool = False) -> None:
        """Cancel the work and wait for its end. With `finish` the current call completes."""
        task = self._task
        if finish:
            self.stopping = True
        else:
            self.cancel()
        if task is not None:
            await asyncio.wait({task})

    async def first(
        self, program: Program, method: str, arrays: Sequence[Any], progress: Progress
    ) -> tuple[Any, ...]:
        started = perf_counter()
        values = await program.run(method, *arrays, progress=progress)
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
        """Run `wanted` times; `tick` is called after every run."""
        self.timing.wanted = wanted
        for _ in range(wanted):
            # Handles messages: on NumPy a run never awaits.
            await asyncio.sleep(0)
            if self.stopping:
                return
            started = perf_counter()
            await program.run(method, *arrays)
            self.timing.repeats.append(1000 * (perf_counter() - started))
            tick()

    def summary(self, answer: str = "") -> str:
        """Return the status after a run; `answer` is what the outputs say, in a few words."""
        timing = self.timing
        told = f"Done: {answer + ', ' if answer else ''}first run {ms_text(timing.first or 0)}"
        if timing.median is not None:
            told += f", then {ms_text(timing.median)}, median of {len(timing.repeats)}"
        return told + (" (stopped early)" if len(timing.repeats) < timing.wanted else "")
