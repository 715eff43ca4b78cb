"""Runs many schedules in CPython, on the simulated device: fast and deterministic."""

from __future__ import annotations

import asyncio
import gc
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any
from unittest.mock import patch

from support.harness import extent
from support.schedules.generate import Schedule, schedules
from support.schedules.kinds import ops_of_kinds
from support.schedules.run import FEW_PLANS, World, in_runtime
from support.schedules.shrink import shrunk
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.load.program_file import read_contents
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.inspection.tune import tuning
from webpte.llm import decode_loop as decode

CHUNKS = 20  # a test each
USUAL, ALL = 500, 10_000  # schedules


class Runner:
    """A runner of many schedules, in one event loop until one fails."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._noises: list[str] = []

    def run(self, schedule: Schedule) -> list[str]:
        """Run a schedule, and list the faults."""
        self._noises = []
        rng = Random(schedule.seed)

        async def make_device() -> SimulatedDevice:
            return SimulatedDevice(
                features=("timestamp-query",), pauses=lambda: rng.choice((1, 1, 1, 2, 3, 6))
            )

        self._loop.set_exception_handler(lambda _, context: self._noises.append(str(context)))
        with warnings.catch_warnings(record=True) as warned, self._unraisable():
            warnings.simplefilter("always")
            problems = self._loop.run_until_complete(World(schedule, make_device).run())
            gc.collect(0)  # only the objects of this schedule
        self._noises += [str(warning.message) for warning in warned]
        problems += [f"afterwards: {noise}" for noise in self._noises]
        if problems:
            self.close()
            self._loop = asyncio.new_event_loop()
        return problems

    @contextmanager
    def _unraisable(self) -> Iterator[None]:
        before = sys.unraisablehook
        sys.unraisablehook = lambda unraisable: self._noises.append(repr(unraisable.exc_value))
        try:
            yield
        finally:
            sys.unraisablehook = before

    def close(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        with suppress(Exception):
            self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


@contextmanager
def quickly() -> Iterator[Runner]:
    """A runner that shares parsed files and shaders between programs, and caches few plans."""
    library, read = ShaderLibrary(), read_contents
    contents: dict[str, Any] = {}

    async def read_once(source: Any, files: Any = (), optional: Any = ()) -> Any:
        if source.name not in contents:
            contents[source.name] = await read(source, files, optional)
        return contents[source.name]

    runner = Runner()
    gc.collect()
    gc.freeze()  # makes collections after each schedule cheap
    gc.disable()
    try:
        with (
            ops_of_kinds(),
            in_runtime("read_contents", read_once),
            in_runtime("ShaderLibrary", lambda: library),
            in_runtime("MAX_PLANS", FEW_PLANS),
            patch.object(decode, "BATCH_SECONDS", 1e6),  # the same steps on a slow machine
            patch.object(tuning, "RUNS", 1),
        ):
            yield runner
    finally:
        runner.close()
        gc.enable()  # frozen objects stay frozen: the next runner would look through all again


def first_failure(found: Iterable[Schedule]) -> str | None:
    """Return the first schedule that fails, shrunk, with its problems; None if all pass."""
    with quickly() as runner:
        for number, schedule in enumerate(found):
            problems = runner.run(schedule)
            if problems:
                small = shrunk(schedule, lambda candidate: bool(runner.run(candidate)))
                said = "\n".join(runner.run(small))
                return f"the {number + 1}th goes wrong, and so does this:\n{small!r}\n{said}"
    return None


def schedule_count(requested: int | None) -> int:
    return extent.count(USUAL, ALL) if requested is None else requested


def first_failure_of(chunk: int, count: int, seed: int) -> str | None:
    """Return the first failure of a chunk of `count` schedules."""
    start, end = (count * at // CHUNKS for at in (chunk, chunk + 1))
    return first_failure(schedules(seed, end - start, start))


def run(schedule: Schedule) -> list[str]:
    """Run a schedule that was pasted into a test."""
    with quickly() as runner:
        return runner.run(schedule)
