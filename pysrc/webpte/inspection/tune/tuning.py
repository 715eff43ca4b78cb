"""The autotuner: finds the fastest tile config of each kernel, timed by the GPU's clock.

A lowering with several tile configs for its kernel calls `Target.choice`, which makes it a tunable.
Tuning runs a method once per candidate, all tunables at once: each gets the time of the calls that
it belongs to. So tuning takes as many runs as the longest list of candidates, however many layers a
model has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from webpte.engine.call.info import MethodInfo
from webpte.engine.files.download import Progress
from webpte.engine.format.program import DelegateCall, Instruction
from webpte.engine.ops.core.target import Tunable, TunedConfigs
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.io import OutputPlacement
from webpte.engine.run.request import DryRun, RunRequest
from webpte.engine.run.timings import Timings
from webpte.inspection.report.difference import Tolerance, difference

DEFAULTS: TunedConfigs = ()
RUNS = 5  # runs per candidate, after a run that compiles and warms up
TRIES = 3  # tries to check a candidate's outputs while other calls come between
GAIN = 0.97  # a candidate replaces the default if it takes at most this share of its time
# Another order of sums may change an element by this share of the largest.
ALIKE = Tolerance(rtol=1e-3, atol=0.0, relative_to="largest")


@dataclass(frozen=True)
class Measured:
    """A tunable with the microseconds of its calls, by candidate."""

    key: str
    default: str
    chosen: str
    microseconds: Mapping[str, float]

    @property
    def gain(self) -> float:
        """The speedup over the default."""
        return self.microseconds[self.default] / self.microseconds[self.chosen]


@dataclass(frozen=True)
class Tuning:
    """The result of `Program.tune`; printed, a table. `refused` candidates gave other results."""

    rows: tuple[Measured, ...]
    refused: tuple[str, ...] = ()

    @property
    def choices(self) -> TunedConfigs:
        """The chosen configs, in the form that `Target` takes."""
        return tuple((row.key, row.chosen) for row in self.rows)

    def __str__(self) -> str:
        lines = [
            "tunable | default | chosen | times as fast | microseconds",
            "---|---|---|---|---",
        ]
        for row in self.rows:
            times = ", ".join(f"{label}: {us:.1f}" for label, us in row.microseconds.items())
            lines.append(f"{row.key} | {row.default} | {row.chosen} | {row.gain:.2f} | {times}")
        return "\n".join([*lines, *(f"refused: {each}" for each in self.refused)])


class TunableMethod(Protocol):
    """The parts of a method that tuning needs."""

    @property
    def info(self) -> MethodInfo: ...

    def earlier_inputs(self) -> Sequence[Any]: ...

    def request(
        self,
        inputs: Sequence[Any],
        outputs: OutputPlacement = OutputPlacement.HOST,
        dry_run: DryRun | None = None,
    ) -> RunRequest: ...

    async def run(self, request: RunRequest) -> Sequence[Any]: ...


class Tuner:
    """Tuner of a method. Other calls may come between its runs, and never use configs on trial."""

    def __init__(
        self,
        method: TunableMethod,
        instructions: Sequence[Instruction],
        delegates: Sequence[GpuDelegate],
        progress: Progress | None = None,
        rest: float = 0.0,
    ) -> None:
        """Take the parts of a method; `rest` is the pause in seconds after each candidate."""
        self._method = method
        self._rest = rest
        self._instructions = instructions
        self._delegates = delegates
        self._progress = progress
        self._expected: Sequence[Any] = ()  # outputs with the default configs

    async def tune(self, inputs: Sequence[Any]) -> Tuning:
        """Measure all candidates and use the fastest; after an error the old configs stay."""
        if not inputs and self._method.info.inputs:
            # The inputs of the last call at this moment, even if other calls come between.
            inputs = self._method.earlier_inputs()
        tuning = await self._measure(inputs)
        for delegate in self._delegates:
            await delegate.use_configs(merged(delegate.info.choices, tuning.choices))
        return tuning

    async def _measure(self, inputs: Sequence[Any]) -> Tuning:
        self._expected = await self._run(inputs, DryRun(configs=DEFAULTS))
        calls = [call for delegate in self._delegates for call in delegate.tunables.values()]
        tunables = {tunable.key: tunable for call in calls for tunable in call}
        rounds = max((len(q.labels) for q in tunables.values()), default=0)
        times: dict[str, dict[str, float]] = {key: {} for key in tunables}
        refused = []
        for number in range(rounds):
            labels = {k: q.labels[number] for k, q in tunables.items() if number < len(q.labels)}
            trial = tuple(labels.items())
            right = await self._is_right(inputs, trial)
            found = await self._timed(inputs, trial) if right else {}
            for key, label in labels.items():
                if right is False:
                    refused.append(f"{key}: {label}")
                elif key in found:  # no result where a call of other shapes came between
                    times[key][label] = found[key]
            if self._progress is not None:
                self._progress("tune", number + 1, rounds)
            if self._rest > 0 and number + 1 < rounds:
                await asyncio.sleep(self._rest)
        rows = [_measured(q, times[q.key]) for q in tunables.values() if q.default in times[q.key]]
        return Tuning(tuple(rows), tuple(refused))

    async def _is_right(self, inputs: Sequence[Any], trial: TunedConfigs) -> bool | None:
        """Return whether configs give the expected outputs, and compile their kernels.

        None if that cannot be known, because other calls change the state all the time.
        """
        for _ in range(TRIES):
            outputs = await self._run(inputs, DryRun(Timings(), configs=trial))
            if all(map(_alike, outputs, self._expected)):
                return True
            before = self._expected
            self._expected = await self._run(inputs, DryRun(configs=DEFAULTS))
            if all(map(_alike, before, self._expected)):
                return False
        return None

    async def _timed(self, inputs: Sequence[Any], trial: TunedConfigs) -> dict[str, float]:
        """Return the best time of several runs, by tunable."""
        best: dict[str, float] = {}
        for _ in range(RUNS):
            timings = Timings()
            await self._run(inputs, DryRun(timings, configs=trial))
            for key, spent in self._by_tunable(timings).items():
                best[key] = min(spent, best.get(key, spent))
        return best

    async def _run(self, inputs: Sequence[Any], dry_run: DryRun) -> Sequence[Any]:
        return await self._method.run(self._method.request(inputs, dry_run=dry_run))

    def _by_tunable(self, timings: Timings) -> dict[str, float]:
        totals: dict[str, float] = {}
        for kernel in timings.kernels:
            instruction = self._instructions[kernel.place]
            assert isinstance(instruction, DelegateCall)
            of_call = self._delegates[instruction.delegate_index].tunables.get(kernel.call, ())
            for tunable in tunables_of(kernel.label, of_call):
                spent = kernel.microseconds or 0.0
                totals[tunable.key] = totals.get(tunable.key, 0.0) + spent
        return totals


def tunables_of(label: str, of_call: Sequence[Tunable]) -> Sequence[Tunable]:
    """Return the call's tunables for the kernel in a label, or else all its tunables."""
    named = [tunable for tunable in of_call if label.startswith(tunable.kernel)]
    longest = max((len(tunable.kernel) for tunable in named), default=0)
    return [t for t in named if len(t.kernel) == longest] or of_call


def merged(old: TunedConfigs, new: TunedConfigs) -> TunedConfigs:
    """Merge two sets of configs, newer over older, sorted by key."""
    return tuple(sorted({**dict(old), **dict(new)}.items()))


def _measured(tunable: Tunable, times: Mapping[str, float]) -> Measured:
    fastest = min(times, key=lambda label: times[label])
    clearly = times[fastest] < GAIN * times[tunable.default]
    return Measured(tunable.key, tunable.default, fastest if clearly else tunable.default, times)


def _alike(one: Any, other: Any) -> bool:
    """Return whether two outputs agree, up to the order of sums."""
    return difference(np.asarray(one), np.asarray(other), ALIKE).agrees
