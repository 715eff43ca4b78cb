"""Which cut of each kernel is the fastest here: asked of the lowerings, timed by the GPU's clock.

A lowering that can cut its kernel in several ways asks `Target.choice`. Tuning runs a method once
per candidate, all questions at once: each has the time of the calls that ask it. So it takes as
many runs as the longest list of candidates, however many layers a model has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from webpte.format.program import DelegateCall, Instruction
from webpte.gpu.device import Progress
from webpte.ops.core.target import Tunable, TunedConfigs
from webpte.report.difference import Tolerance, difference
from webpte.runtime.base.info import MethodInfo
from webpte.runtime.execute.delegate import GpuDelegate
from webpte.runtime.execute.timings import Timings
from webpte.runtime.inspect.dry_run import DryRun

DEFAULTS: TunedConfigs = ()
RUNS = 5  # of each candidate, after one that compiles and warms up
TRIES = 3  # to see whether a candidate is right, while other calls come between
GAIN = 0.97  # another than the default is chosen if it takes at most so much of its time
# Another order of sums may change an element by this share of the largest.
ALIKE = Tolerance(rtol=1e-3, atol=0.0, relative_to="largest")


@dataclass(frozen=True)
class Measured:
    """One question: microseconds of a method's calls that ask it, by candidate."""

    key: str
    default: str
    chosen: str
    microseconds: Mapping[str, float]

    @property
    def gain(self) -> float:
        """How many times as fast as the default."""
        return self.microseconds[self.default] / self.microseconds[self.chosen]


@dataclass(frozen=True)
class Tuning:
    """What `Program.tune` found; printed, a table. `refused` candidates gave other results."""

    rows: tuple[Measured, ...]
    refused: tuple[str, ...] = ()

    @property
    def choices(self) -> TunedConfigs:
        """As `Target` takes them."""
        return tuple((row.key, row.chosen) for row in self.rows)

    def __str__(self) -> str:
        lines = [
            "question | default | chosen | times as fast | microseconds",
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

    async def run_dry(self, inputs: Sequence[Any], dry_run: DryRun) -> Sequence[Any]: ...


class Tuner:
    """Tunes one method. Other calls may come between its runs, and are right at any time."""

    def __init__(
        self,
        method: TunableMethod,
        instructions: Sequence[Instruction],
        delegates: Sequence[GpuDelegate],
        progress: Progress | None = None,
        rest: float = 0.0,
    ) -> None:
        """`rest`: seconds that are left to others after each candidate."""
        self._method = method
        self._rest = rest
        self._instructions = instructions
        self._delegates = delegates
        self._progress = progress
        self._expected: Sequence[Any] = ()  # with the default cuts

    async def tune(self, inputs: Sequence[Any]) -> Tuning:
        """If anything fails, kernels are cut as before: those on trial are for its own runs."""
        if not inputs and self._method.info.inputs:
            # Those of the last call at this moment, whatever calls come between.
            inputs = self._method.earlier_inputs()
        tuning = await self._measure(inputs)
        for delegate in self._delegates:
            await delegate.choose(merged(delegate.info.choices, tuning.choices))
        return tuning

    async def _measure(self, inputs: Sequence[Any]) -> Tuning:
        self._expected = await self._method.run_dry(inputs, DryRun(trial=DEFAULTS))
        asked = [call for delegate in self._delegates for call in delegate.asked.values()]
        questions = {question.key: question for call in asked for question in call}
        rounds = max((len(q.labels) for q in questions.values()), default=0)
        times: dict[str, dict[str, float]] = {key: {} for key in questions}
        refused = []
        for number in range(rounds):
            labels = {k: q.labels[number] for k, q in questions.items() if number < len(q.labels)}
            trial = tuple(labels.items())
            right = await self._is_right(inputs, trial)
            found = await self._timed(inputs, trial) if right else {}
            for key, label in labels.items():
                if right is False:
                    refused.append(f"{key}: {label}")
                elif key in found:  # it is not where a call of other shapes came between
                    times[key][label] = found[key]
            if self._progress is not None:
                self._progress("tune", number + 1, rounds)
            if self._rest > 0 and number + 1 < rounds:
                await asyncio.sleep(self._rest)
        rows = [_measured(q, times[q.key]) for q in questions.values() if q.default in times[q.key]]
        return Tuning(tuple(rows), tuple(refused))

    async def _is_right(self, inputs: Sequence[Any], trial: TunedConfigs) -> bool | None:
        """Whether it computes what is expected; None if that is not known, because other calls
        change what is kept from call to call all the time. Kernels are compiled on the way."""
        for _ in range(TRIES):
            outputs = await self._method.run_dry(inputs, DryRun(Timings(), trial=trial))
            if all(map(_alike, outputs, self._expected)):
                return True
            before = self._expected
            self._expected = await self._method.run_dry(inputs, DryRun(trial=DEFAULTS))
            if all(map(_alike, before, self._expected)):
                return False
        return None

    async def _timed(self, inputs: Sequence[Any], trial: TunedConfigs) -> dict[str, float]:
        """By question, the best of several runs."""
        best: dict[str, float] = {}
        for _ in range(RUNS):
            timings = Timings()
            await self._method.run_dry(inputs, DryRun(timings, trial=trial))
            for key, spent in self._by_question(timings).items():
                best[key] = min(spent, best.get(key, spent))
        return best

    def _by_question(self, timings: Timings) -> dict[str, float]:
        totals: dict[str, float] = {}
        for kernel in timings.kernels:
            instruction = self._instructions[kernel.place]
            assert isinstance(instruction, DelegateCall)
            asked = self._delegates[instruction.delegate_index].asked.get(kernel.call, ())
            for question in meant_by(kernel.label, asked):
                spent = kernel.microseconds or 0.0
                totals[question.key] = totals.get(question.key, 0.0) + spent
        return totals


def meant_by(label: str, asked: Sequence[Tunable]) -> Sequence[Tunable]:
    """Of a call's questions, those about one of its kernels; all, if it is named by none."""
    named = [question for question in asked if label.startswith(question.kernel)]
    longest = max((len(question.kernel) for question in named), default=0)
    return [q for q in named if len(q.kernel) == longest] or asked


def merged(old: TunedConfigs, new: TunedConfigs) -> TunedConfigs:
    """The newer of both, in an order that does not depend on when they came."""
    return tuple(sorted({**dict(old), **dict(new)}.items()))


def _measured(question: Tunable, times: Mapping[str, float]) -> Measured:
    fastest = min(times, key=lambda label: times[label])
    clearly = times[fastest] < GAIN * times[question.default]
    return Measured(question.key, question.default, fastest if clearly else question.default, times)


def _alike(one: Any, other: Any) -> bool:
    """Return whether two outputs agree, up to the order of sums."""
    return difference(np.asarray(one), np.asarray(other), ALIKE).agrees
