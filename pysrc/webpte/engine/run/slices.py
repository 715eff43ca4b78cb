"""Divides long executions into slices, so that a cancelled execution leaves the GPU soon.

A GPU cannot be interrupted: it computes all work in its queue, although nobody waits for the
results. So an execution that is expected to take long is submitted in slices, each after the end of
the slice before. A short execution is a single submission, as fast as ever. The expected time
follows from the measured time per workgroup of the delegate; before any measurement, the first
workgroups are measured.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import prod

from webpte.engine.ops.core.records import Grid

LONG_MS = 1000.0  # executions that are expected to take less are not divided
SLICE_MS = 250.0  # the length of a slice; waiting for its end takes 1 to 3 ms
SHORT_MS = 50.0  # of a shorter measured time, waiting may be the largest part
# Workgroups in the first slice of a delegate that has never run: a hundredth of a second on slow
# GPUs, some seconds in software.
FIRST_WORKGROUPS = 1 << 14
MANY = 4  # a first run is divided if it has this many times as many workgroups


class Workgroups:
    """The workgroups of an execution, by dispatch.

    `calls` has the number of the call that each dispatch is for: no call is divided, because a
    simulated device computes whole calls.
    """

    def __init__(self, grids: Sequence[Grid], calls: Sequence[int]) -> None:
        # workgroups before each dispatch, then in all
        self._before = [0, *accumulate(prod(grid) for grid in grids)]
        self._calls = calls
        self.count = self._before[-1]

    def left(self, first: int) -> int:
        """Return the workgroups from this dispatch on."""
        return self.count - self._before[first]

    def end_of(self, first: int, wanted: float) -> int:
        """Return the end of the slice that begins with this dispatch and has `wanted` workgroups.

        The slice has a call at least, and ends with a call.
        """
        end = max(bisect_right(self._before, self._before[first] + wanted) - 1, first + 1)
        while end < len(self._calls) and self._calls[end] == self._calls[end - 1]:
            end += 1
        return min(end, len(self._calls))


class Pace:
    """The time that a workgroup of a delegate takes, as measured last.

    A short execution takes as long as the wait for its end, so its time is only an upper bound for
    a workgroup.
    """

    def __init__(self) -> None:
        self._ms: float | None = None  # per workgroup

    def measured(self, workgroups: int, ms: float) -> None:
        """Record the time of an execution, or of a slice, with so many workgroups."""
        if workgroups:
            each = ms / workgroups
            self._ms = each if self._ms is None or ms > SHORT_MS else min(self._ms, each)

    def is_long(self, workgroups: int) -> bool:
        """Return whether so many workgroups are expected to take long, or their time is unknown."""
        if self._ms is None:
            return workgroups > MANY * FIRST_WORKGROUPS
        return workgroups * self._ms > LONG_MS

    def end_of_slice(self, work: Workgroups, first: int) -> int:
        """Return the end of the slice that begins with this dispatch."""
        return work.end_of(first, SLICE_MS / self._ms if self._ms else FIRST_WORKGROUPS)
