"""Records the results of a method's calls, and their differences from NumPy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from webpte.engine.graph.graph import Call
from webpte.inspection.report.difference import Difference, Tolerance, non_finite

Arrays = dict[int, np.ndarray]


@dataclass(frozen=True)
class CheckedCall:
    """The findings about a call; `place` is the instruction of the method that it is in."""

    place: int
    call: int | None
    name: str
    own: Difference | None
    drift: Difference | None
    nans: int
    infinities: int
    given: tuple[int, int]  # NaN and infinities in the inputs


@dataclass(frozen=True)
class Evidence:
    """The arrays of the first call beyond the tolerance."""

    place: int
    call: Call
    output: int  # value id
    inputs: Arrays
    actual: np.ndarray
    wanted: np.ndarray


class ValueRecorder:
    """Collects findings and arrays over the calls of a method.

    keep      calls, by the instruction of the method and their index: their arrays are kept
    progress  called after each call with the number of calls so far
    judged    whether calls that the device has computed are computed in NumPy as well
    """

    def __init__(
        self,
        tolerance: Tolerance,
        drift: bool,
        keep: Collection[tuple[int, int]] = (),
        progress: Callable[[int], None] | None = None,
        *,
        judged: bool = True,
    ) -> None:
        self.judged = judged
        self.tolerance = tolerance
        self.drift = drift
        self.calls: list[CheckedCall] = []
        self.first: Evidence | None = None
        self.kept: dict[tuple[int, int], tuple[Arrays, Arrays]] = {}  # inputs and outputs
        self._keep = keep
        self._progress = progress

    def wants(self, place: int, call: Call) -> bool:
        return (place, call.index) in self._keep

    def keep(self, place: int, call: Call, given: Arrays, made: Arrays) -> None:
        """Keep the arrays of a call if they are wanted; in a loop, the arrays of the last turn."""
        if self.wants(place, call):
            self.kept[place, call.index] = dict(given), dict(made)

    def add_values(
        self,
        place: int,
        call: int | None,
        name: str,
        given: tuple[int, int],
        made: Iterable[np.ndarray],
        differences: tuple[Difference | None, Difference | None] = (None, None),
    ) -> None:
        """Record a call that has run. `given` counts NaN and infinities among its inputs."""
        nans, infinities = count_non_finite(made)
        self.calls.append(CheckedCall(place, call, name, *differences, nans, infinities, given))
        if self._progress is not None:
            self._progress(len(self.calls))


def count_non_finite(arrays: Iterable[Any]) -> tuple[int, int]:
    """Count NaN and infinities in the arrays among these values."""
    counts = [non_finite(array) for array in arrays if isinstance(array, np.ndarray)]
    return sum(nans for nans, _ in counts), sum(infinities for _, infinities in counts)
