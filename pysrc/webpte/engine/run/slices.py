"""Divides long executions into slices, so that a cancelled one leaves the GPU soon.

A GPU cannot be interrupted: what is in its queue is computed, although nobody waits for it. So an
execution that is expected to take long goes to the queue slice by slice, each once the one before
has ended. A short one is one submission, as fast as ever. What is short is told by the time that
the workgroups of its delegate took before; if nobody knows yet, by that of the first of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import prod

from webpte.engine.ops.core.records import Grid

LONG_MS = 1000.0  # what is expected to take less is not divided
SLICE_MS = 250.0  # the length of a slice; waiting for its end takes 1 to 3 ms
SHORT_MS = 50.0  # up to this, waiting may be most of a measured time
# Of a delegate that has never run: a hundredth of a second on slow GPUs, some seconds in software.
FIRST_WORKGROUPS = 1 << 14
MANY = 4  # times as many: with fewer, the first run is not divided


class Workgroups:
    """The workgroups of an execution, by dispatch.

    `calls` has the number of the call that each dispatch is for: no call is divided, because a
    simulated device computes whole calls.
    """

    def __init__(self, grids: Sequence[Grid], calls: Sequence[int]) -> None:
        self._before = [0, *accumulate(prod(grid) for grid in grids)]  # each dispatch, and in all
        self._calls = calls
        self.count = self._before[-1]

    def left(self, first: int) -> int:
        """Return the workgroups from this dispatch on."""
        return self.count - self._before[first]

    def end_of(self, first: int, wanted: float) -> int:
        """Return the end of the slice that begins with this dispatch and has `wanted` workgroups.

        It has a call at least, and ends with a call.
        """
        end = max(bisect_right(self._before, self._before[first] + wanted) - 1, first + 1)
        while end < len(self._calls) and self._calls[end] == self._calls[end - 1]:
            end += 1
        return min(end, len(self._calls))


class Pace:
    """The time that a workgroup of a delegate takes, as it was measured last.

    A short execution takes as long as it takes to wait for it, so it tells only that a workgroup
    does not take longer.
    """

    def __init__(self) -> None:
        self._ms: float | None = None  # of a workgroup

    def measured(self, workgroups: int, ms: float) -> None:
        """Take the time of an execution, or a slice of one, with so many workgroups."""
        if workgroups:
            each = ms / workgroups
            self._ms = each if self._ms is None or ms > SHORT_MS else min(self._ms, each)

    def is_long(self, workgroups: int) -> bool:
        """Tell whether so many workgroups are expected to take long, or nobody knows."""
        if self._ms is None:
            return workgroups > MANY * FIRST_WORKGROUPS
        return workgroups * self._ms > LONG_MS

    def end_of_slice(self, work: Workgroups, first: int) -> int:
        """Return the end of the slice that begins with this dispatch."""
        return work.end_of(first, SLICE_MS / self._ms if self._ms else FIRST_WORKGROUPS)
