"""The runner of a session: one task at a time uses the program, and its times are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

from page.browser import Progress
from page.core.picture_tiles import PictureTiles
from page.core.sound_stream import SoundStream
from page.shared.html.units import ms_text
from webpte import Program


@dataclass
class Timing:
    """The times of one program, in milliseconds."""

    load: float | None = None
    stages: Mapping[str, float] = field(default_factory=dict)  # of the load
    first: float | None = None
    last: float | None = None
    repeats: list[float] = field(default_factory=list)
    wanted: int = 0

    @property
    def median(self) -> float | None:
        return median(self.repeats) if self.repeats else None


async def work_done(program: Program) -> None:
    """Wait until the GPU has done all that was submitted to it."""
    if program.device_info.kind == "numpy":
        return
    device = program.device
    (buffer,) = await device.create_buffers([4])
    try:
        await device.read(buffer, 4)  # comes after everything else
    finally:
        device.destroy_buffers([buffer])


class Runner:
    """The lock on a program: while `busy`, nothing else may use it; `doing` says why."""

    def __init__(self) -> None:
        self.timing = Timing()
        self.doing = ""
        self.can_stop = False  # before it ends
        self._at_once = False
        self.stopping = False
        self.cancelled = False  # and the GPU may still be busy with the cancelled run
        self._started = 0.0
        self._task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        return self._task is not None

    @property
    def seconds(self) -> float:
        """The time since the current work began; 0 if there is none."""
        return perf_counter() - self._started if self._task is not None else 0.0

    async def wait(self) -> None:
        """Wait for the end of the current work."""
        if self._task is not None:
            await asyncio.wait({self._task})

    def reset(self) -> None:
        """Drop the times of runs; the time of the load stays."""
        self.timing = Timing(load=self.timing.load, stages=self.timing.stages)

    def start(
        self, work: Coroutine[Any, Any, None], doing: str, can_stop: bool, at_once: bool = False
    ) -> asyncio.Task[None]:
        """Start `work` and be busy until it ends. `can_stop`: it checks `stopping`; `at_once`: it
        can be cancelled anywhere."""
        assert self._task is None, f"{doing} while {self.doing}"
        self.stopping, self.doing, self.can_stop = False, doing, can_stop
        self._at_once = at_once
        self._started = perf_counter()
        self._task = asyncio.ensure_future(work)
        self._task.add_done_callback(self._end)
        return self._task

    def _end(self, task: asyncio.Task[None]) -> None:
        self._task = None

    def cancel(self) -> bool:
        """End the work, after the current call if it must; return whether at once."""
        self.stopping = True
        if self._at_once and self._task is not None:
            self.cancelled = True
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

    async def once(
        self,
        program: Program,
        method: str,
        arrays: Sequence[Any],
        progress: Progress,
        stream: SoundStream | PictureTiles | None = None,
    ) -> tuple[Any, ...]:
        """Run once, or once over a whole sound or picture. The first time is kept, too: it has
        one-time costs."""
        started = perf_counter()

        async def call(given: Sequence[Any]) -> Sequence[Any]:
            return await program.run(method, *given, progress=progress)

        values = tuple(await call(arrays)) if stream is None else await stream.run(arrays, call)
        self.timing.last = 1000 * (perf_counter() - started)
        if self.timing.first is None:
            self.timing.first = self.timing.last
        return values

    async def repeat(
        self,
        program: Program,
        method: str,
        arrays: Sequence[Any],
        wanted: int,
        tick: Callable[[], None],
        most_seconds: float,
    ) -> None:
        """Run `wanted` times, as far as the time allows; `tick` is called after every run."""
        self.timing.wanted, self.timing.repeats = wanted, []
        began = perf_counter()
        for _ in range(wanted):
            # Handles messages: on NumPy a run never awaits.
            await asyncio.sleep(0)
            if self.stopping or perf_counter() - began > most_seconds:
                return
            started = perf_counter()
            await program.run(method, *arrays)
            self.timing.repeats.append(1000 * (perf_counter() - started))
            tick()

    def run_summary(self, answer: str = "") -> str:
        """Return the status after a run; `answer` is a short text of the outputs."""
        spent = ms_text(self.timing.last or 0)
        return f"Done: {answer}, in {spent}" if answer else f"Done in {spent}"

    def benchmark_summary(self) -> str:
        timing, done = self.timing, len(self.timing.repeats)
        if timing.median is None:
            return "Benchmark cancelled"
        told = f"Benchmark: {ms_text(timing.median)}, median of {done:,}"
        return told + (f" (stopped early, of {timing.wanted:,})" if done < timing.wanted else "")
