"""A run compared with NumPy, call by call, as `Program.compare` returns it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from webpte.inspection.report.difference import ArrayFacts, Difference, ElementWindow, Tolerance
from webpte.inspection.report.report import HIDDEN, Report, ReportTable


@dataclass(frozen=True)
class NamedArray:
    """A value of a call, with the array itself for a closer look."""

    key: str  # key of the value in `Program.graph`
    facts: ArrayFacts
    array: np.ndarray = field(repr=False, compare=False, metadata=HIDDEN)


@dataclass(frozen=True)
class CallComparison:
    """The differences of a call.

    own    caused by its kernels alone: NumPy gets the call's inputs from the device
    drift  accumulated: NumPy computes from the inputs of the delegate on

    Both belong to the worst output; None if there is nothing to compare: for aliases, calls on the
    host, and outputs without a meaning.
    """

    node: int  # its `id` in `Program.graph`
    op: str
    label: str
    where: str
    layer: str | None
    own: Difference | None
    drift: Difference | None
    nans: int  # in the call's outputs on the device
    infinities: int


@dataclass(frozen=True)
class FirstMismatch:
    """The first call beyond the tolerance, with its inputs and its actual and wanted output."""

    call: CallComparison
    output: str  # the key of the value
    around: ElementWindow
    inputs: tuple[NamedArray, ...]
    actual: np.ndarray = field(repr=False, compare=False, metadata=HIDDEN)
    wanted: np.ndarray = field(repr=False, compare=False, metadata=HIDDEN)

    def __str__(self) -> str:
        own = self.call.own
        assert own is not None
        lines = [
            f"{self.call.label} is off by {own.max_abs:.4g} at {list(own.worst)}; "
            f"{own.wrong:,} of {own.count:,} elements are beyond the tolerance",
            f"around it, from {list(self.around.start)} on:\n{_short(self.around.actual)}",
            f"NumPy has there:\n{_short(self.around.wanted)}",
        ]
        for given in self.inputs:
            facts = given.facts
            bad = f", {facts.nans} NaN, {facts.infinities} infinite" if facts.nans else ""
            lines.append(
                f"given {given.key}: {facts.dtype} {list(facts.shape)}, "
                f"{facts.low:.4g} to {facts.high:.4g}{bad}"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class KeptValues:
    """The inputs and outputs of a call on the device."""

    inputs: tuple[NamedArray, ...]
    outputs: tuple[NamedArray, ...]


@dataclass(frozen=True)
class RunValues(Report):
    """The inputs and outputs of some calls of a run, by node, as `Program.values` returns them."""

    program: str
    method: str
    device: str
    calls: Mapping[int, KeptValues]

    def table(self) -> ReportTable:
        rows = [
            (node, role, each.key, each.facts.dtype, each.facts.shape, *_range(each.facts))
            for node, kept in self.calls.items()
            for role, arrays in (("in", kept.inputs), ("out", kept.outputs))
            for each in arrays
        ]
        headings = ("id", "role", "value", "dtype", "shape", "low", "high", "mean", "NaN", "inf")
        title = f"{self.program}, {self.method} on {self.device}: {len(self.calls):,} calls"
        return ReportTable(title, headings, rows)


@dataclass(frozen=True)
class OutputComparison:
    """An output of the method compared with the expected output."""

    name: str
    difference: Difference
    around: ElementWindow | None
    actual: np.ndarray = field(repr=False, compare=False, metadata=HIDDEN)
    wanted: np.ndarray = field(repr=False, compare=False, metadata=HIDDEN)


@dataclass(frozen=True)
class Comparison(Report):
    """A compared run; `calls` are in order of time, calls in a loop several times."""

    program: str
    method: str
    device: str
    tolerance: Tolerance
    calls: tuple[CallComparison, ...]
    first: FirstMismatch | None  # by the difference of each call alone
    first_nan: CallComparison | None  # outputs NaN without a NaN among its inputs
    first_infinity: CallComparison | None
    outputs: tuple[OutputComparison, ...]  # if expected outputs were given
    kept: Mapping[int, KeptValues]  # by node, for the requested nodes

    @property
    def agrees(self) -> bool:
        """Whether every call is within the tolerance, and every output as expected.

        False if the comparison `is_empty`.
        """
        right = self.first is None and all(o.difference.agrees for o in self.outputs)
        return right and not self.is_empty

    @property
    def is_empty(self) -> bool:
        """Whether nothing was compared: on device="numpy", and no outputs were expected."""
        return not self.outputs and all(call.own is None for call in self.calls)

    @property
    def worst(self) -> list[CallComparison]:
        """The compared calls, calls with the largest own difference first."""
        compared = [call for call in self.calls if call.own is not None]
        return sorted(compared, key=lambda c: -c.own.max_abs if c.own else 0.0)

    def table(self) -> ReportTable:
        rows = [
            (c.node, c.op, c.layer or "", *_numbers(c.own), c.drift.max_abs if c.drift else None)
            for c in self.worst
        ]
        verdict = "all agree" if self.agrees else "not all agree"
        if self.is_empty:
            verdict = "nothing to compare"
        title = (
            f"{self.program}, {self.method} on {self.device} against NumPy: {len(rows):,} calls, "
            f"{verdict} (rtol {self.tolerance.rtol:g}, atol {self.tolerance.atol:g})"
        )
        headings = ("id", "op", "layer", "wrong", "largest difference", "relative", "drift")
        return ReportTable(title, headings, rows, tuple(self._notes()))

    def _notes(self) -> list[str]:
        notes = [] if self.first is None else [f"first: {self.first}"]
        for what, call in (("NaN", self.first_nan), ("infinity", self.first_infinity)):
            if call is not None:
                notes.append(f"{what} first arises in {call.label}")
        for output in self.outputs:
            off = output.difference
            said = (
                "agrees" if off.agrees else off.problem or f"{off.wrong:,} of {off.count:,} wrong"
            )
            notes.append(f"{output.name}: {said}, off by {off.max_abs:.4g}")
        return notes


def _short(values: list[Any]) -> str:
    return np.array2string(np.array(values), precision=4, suppress_small=True)


def _numbers(difference: Difference | None) -> tuple[int, float, float]:
    assert difference is not None
    return difference.wrong, difference.max_abs, difference.max_rel


def _range(facts: ArrayFacts) -> tuple[float, float, float, int, int]:
    return facts.low, facts.high, facts.mean, facts.nans, facts.infinities
