"""The result of `Program.check`: whether outputs agree with the outputs of a reference."""

from __future__ import annotations

from dataclasses import dataclass

from webpte.inspection.report.comparison import OutputComparison
from webpte.inspection.report.difference import Tolerance


@dataclass(frozen=True)
class WorstElement:
    """The element that exceeds its tolerance most, or the element with the largest error.

    `used` is the error as a share of the element's tolerance; up to 1 agrees.
    """

    output: str
    index: tuple[int, ...]
    actual: float
    wanted: float
    used: float


@dataclass(frozen=True)
class Check:
    """The outputs of a method compared with expected outputs, by a single tolerance.

    variant  the way of running: "as suits the adapter", "without f16", ..., "NumPy"
    """

    program: str
    method: str
    device: str
    variant: str
    tolerance: Tolerance
    outputs: tuple[OutputComparison, ...]

    @property
    def agrees(self) -> bool:
        return all(each.difference.agrees for each in self.outputs)

    @property
    def worst(self) -> WorstElement | None:
        """The worst element of all outputs; None if there are no elements to compare."""
        compared = [each for each in self.outputs if each.difference.worst or each.actual.ndim == 0]
        compared = [each for each in compared if each.actual.size and not each.difference.problem]
        if not compared:
            return None
        each = max(compared, key=lambda one: one.difference.used)
        found = each.difference
        actual, wanted = (float(a[found.worst]) for a in (each.actual, each.wanted))
        return WorstElement(each.name, found.worst, actual, wanted, found.used)

    def __str__(self) -> str:
        how = f"{self.program}, {self.method} on {self.device}, {self.variant}"
        problem = next((o for o in self.outputs if o.difference.problem), None)
        if problem is not None:
            return f"{how}: {problem.name} has another shape: {problem.difference.problem}"
        if self.worst is None:
            return f"{how}: agrees, there are no elements"
        worst = self.worst
        at = f"{worst.output}{list(worst.index)} is {worst.actual:g}, expected {worst.wanted:g}"
        share = f"{worst.used:.0%} of the tolerance"
        return f"{how}: {'agrees' if self.agrees else 'differs'}, {at} ({share})"
